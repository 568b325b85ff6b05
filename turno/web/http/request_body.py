"""Read a request's JSON body, refusing everything that a database or a worker could stumble over."""

import math
from typing import Any, NamedTuple, NoReturn

from flask import Request
from werkzeug.exceptions import RequestEntityTooLarge

from turno.jobs.json_text import NotJson, parse_json
from turno.web.http.problems import FieldProblem, Kind, Problem, invalid


class JsonBody(NamedTuple):
    """A body's JSON object, and its text: only the text has every decimal exactly."""

    text: str
    value: dict[str, Any]


def read_json_object(request: Request) -> JsonBody:
    """Return the body's JSON object.

    Raises Problem 415 for another media type, 413 beyond the application's MAX_CONTENT_LENGTH, announced or
    not, and 400 with a sentence for invalid JSON (RFC 8259) and for values that jsonb would refuse or change.
    """
    _require_json(request)
    text, value = _parse(_read(request))
    if not isinstance(value, dict):
        _refuse("The body must be a JSON object.")
    return JsonBody(text, value)


def read_bytes(request: Request) -> bytes:
    """Return the body's bytes; raises Problem 415 for another media type than octets, 413 beyond the limit."""
    if request.mimetype != "application/octet-stream":
        raise Problem(Kind.MEDIA_TYPE, "Send the piece as application/octet-stream.", headers=_ACCEPT_BYTES)
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise Problem(Kind.MEDIA_TYPE, "Send the body without a Content-Encoding.", headers=_ACCEPT_BYTES)
    return _read(request)


def _require_json(request: Request) -> None:
    charset = request.mimetype_params.get("charset", "utf-8").lower()
    if request.mimetype != "application/json" or charset not in {"utf-8", "utf8"}:
        raise Problem(Kind.MEDIA_TYPE, "Send the body as application/json in UTF-8.", headers=_ACCEPT)
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise Problem(Kind.MEDIA_TYPE, "Send the body without a Content-Encoding.", headers=_ACCEPT)


_ACCEPT = {"Accept": "application/json"}
_ACCEPT_BYTES = {"Accept": "application/octet-stream"}


def _read(request: Request) -> bytes:
    body = request.get_data(cache=False)
    # Werkzeug refuses an announced length, but silently cuts a streamed body at the limit.
    if request.content_length is None and len(body) >= (request.max_content_length or math.inf):
        raise RequestEntityTooLarge
    return body


def _parse(body: bytes) -> tuple[str, Any]:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        _refuse("The body is not valid UTF-8.")
    try:
        return text, parse_json(text)
    except NotJson as error:
        path, problem = error.problems[0]
        if path:
            raise invalid([FieldProblem(*one) for one in error.problems]) from None
        _refuse(f"The body {problem}.")


def _refuse(detail: str) -> NoReturn:
    raise Problem(Kind.INVALID_REQUEST, detail)
