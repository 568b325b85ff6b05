"""Read a request's body into the type that documents it; a database or a worker can store every value in it."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from threading import Lock
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

from flask import Request
from werkzeug.exceptions import RequestEntityTooLarge

from turno.errors import InvalidPayload
from turno.jobs.converter import converter
from turno.jobs.handler import JobHandler
from turno.jobs.json_text import NotJson, parse_json
from turno.jobs.payload import check_payload
from turno.web.http.problems import FieldProblem, Kind, Problem, invalid

B = TypeVar("B")

SMALL_BODY_BYTES = 16 * 1024  # bytes, checked within a millisecond
LONGEST_FIELD = 200
_computing = Lock()


class JsonBody(NamedTuple):
    """The JSON object of a body, and its text: only the text has every decimal exactly."""

    text: str
    value: dict[str, Any]


class Changes(dict[str, Any], Generic[B]):
    """The fields that a PATCH names, checked against a dataclass with a default for each field."""


def read_json_object(request: Request) -> JsonBody:
    """Return the JSON object of the body.

    Raises Problem 415 for another media type, 413 beyond the application's MAX_CONTENT_LENGTH, announced or
    not, and 400 with a sentence for invalid JSON (RFC 8259) and for values that jsonb would refuse or change.
    """
    charset = request.mimetype_params.get("charset", "utf-8").lower()
    if request.mimetype != "application/json" or charset not in {"utf-8", "utf8"}:
        _refuse_media_type("Send the body as application/json in UTF-8.", "application/json")
    text, value = _parse(_read(request, "application/json"))
    if not isinstance(value, dict):
        _refuse("The body must be a JSON object.")
    return JsonBody(text, value)


def read_bytes(request: Request) -> bytes:
    """Return the bytes of the body; raises Problem 415 for another media type than octets, 413 beyond the limit."""
    if request.mimetype != "application/octet-stream":
        _refuse_media_type("Send the piece as application/octet-stream.", "application/octet-stream")
    return _read(request, "application/octet-stream")


def read_body(request: Request, kind: type[B]) -> B:
    """Return the JSON body as a value of `kind`; raises Problem 413, 415, or 400 with each field that does not fit."""
    with one_at_a_time(request):
        loaded: B = _loaded(read_json_object(request), kind)
    return loaded


def read_changes(request: Request, kind: type[B]) -> Changes[B]:
    """Return the fields that a PATCH names; raises Problem as `read_body` does, and 400 for a body without a field."""
    body = read_json_object(request)
    changes = _loaded(body, kind)
    if not body.value:
        names = ", ".join(field.name for field in fields(kind))  # type: ignore[arg-type]  # a dataclass
        raise invalid([FieldProblem("body", f"must name some of {names}")])
    return Changes({name: getattr(changes, name) for name in body.value})


def check(handler: type[JobHandler[Any]], value: Any) -> tuple[Any, list[FieldProblem]]:
    """Return a payload in its plain JSON form, or all of its problems."""
    try:
        return check_payload(handler, value), []
    except InvalidPayload as error:
        return None, field_problems(error, "payload")


def field_problems(error: InvalidPayload, *within: str) -> list[FieldProblem]:
    """Return the problems of a body, or of its part `within`, each with the path of the field."""
    paths = [".".join(filter(None, (*within, problem["field"]))) for problem in error.problems]
    found = zip(paths, error.problems, strict=True)
    return [FieldProblem(path[:LONGEST_FIELD] or "body", problem["problem"]) for path, problem in found]


@contextmanager
def one_at_a_time(request: Request) -> Iterator[None]:
    """Let one thread at a time check a large body; small bodies pass.

    The interpreter runs one thread at a time, and a request that returns from the database waits for it behind every
    computing thread: with eight large bodies, eight times as long as with one.
    """
    if request.content_length is not None and request.content_length <= SMALL_BODY_BYTES:
        yield
        return
    with _computing:
        yield


def _loaded(body: JsonBody, kind: Any) -> Any:
    try:
        return converter(kind).load(body.text)
    except InvalidPayload as error:
        raise invalid(field_problems(error)) from error


def _read(request: Request, media_type: str) -> bytes:
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        _refuse_media_type("Send the body without a Content-Encoding.", media_type)
    body = request.get_data(cache=False)
    # Werkzeug refuses an announced length, but silently cuts a streamed body at the limit.
    if request.content_length is None and len(body) >= (request.max_content_length or math.inf):
        raise RequestEntityTooLarge
    return body


def _parse(body: bytes) -> tuple[str, Any]:
    try:
        text = body.decode()
        return text, parse_json(text)
    except UnicodeDecodeError:
        _refuse("The body is not valid UTF-8.")
    except NotJson as error:
        path, problem = error.problems[0]
        if path:
            raise invalid([FieldProblem(*found) for found in error.problems]) from None
        _refuse(f"The body {problem}.")


def _refuse(detail: str) -> NoReturn:
    raise Problem(Kind.INVALID_REQUEST, detail)


def _refuse_media_type(detail: str, accepted: str) -> NoReturn:
    raise Problem(Kind.MEDIA_TYPE, detail, headers={"Accept": accepted})
