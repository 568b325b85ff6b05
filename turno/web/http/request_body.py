"""Read a request's JSON body, refusing everything that a database or a worker could stumble over."""

import json
import math
from collections import Counter
from typing import Any, NoReturn

from flask import Request
from werkzeug.exceptions import RequestEntityTooLarge

from turno.web.http.problems import Kind, Problem

MAX_DEPTH = 64
LARGEST_WHOLE_NUMBER = 2**63 - 1
LONGEST_NUMBER = 400


def read_json_object(request: Request) -> dict[str, Any]:
    """Return the body's JSON object.

    Raises Problem 415 for another media type, 413 beyond the application's MAX_CONTENT_LENGTH, announced or
    not, and 400 with a sentence for what is no JSON (RFC 8259) or could not be stored as it is.
    """
    _require_json(request)
    value = _parse(_read(request))
    _require_storable(value)
    if not isinstance(value, dict):
        _refuse("The body must be a JSON object.")
    return value


def read_bytes(request: Request) -> bytes:
    """Return the body as it is; raises Problem 415 for another media type than octets, 413 beyond the limit."""
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
    # Werkzeug refuses an announced length, but cuts what is streamed at the limit without a word.
    if request.content_length is None and len(body) >= (request.max_content_length or math.inf):
        raise RequestEntityTooLarge
    return body


def _parse(body: bytes) -> Any:
    try:
        return json.loads(
            body.decode(),
            object_pairs_hook=_object,
            parse_int=_whole_number,
            parse_float=_number,
            parse_constant=_constant,
        )
    except UnicodeDecodeError:
        _refuse("The body is not valid UTF-8.")
    except json.JSONDecodeError as error:
        _refuse(f"The body is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}.")
    except RecursionError:
        _too_deep()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        times = Counter(name for name, _ in pairs)
        twice = next(name for name in times if times[name] > 1)
        _refuse(f"An object has the name {twice[:60]!a} twice.")
    return value


def _whole_number(text: str) -> int:
    # The length first: turning a long text into a number takes quadratic time.
    if len(text) > LONGEST_NUMBER or abs(number := int(text)) > LARGEST_WHOLE_NUMBER:
        _refuse("A whole number does not fit in 64 bits; send it as a string.")
    return number


def _number(text: str) -> float:
    if len(text) > LONGEST_NUMBER or (number := float(text)) in (float("inf"), float("-inf")):
        _refuse("A number is too large or too long; send it as a string.")
    return number


def _constant(text: str) -> NoReturn:
    _refuse(f"{text} is not a JSON number.")


def _require_storable(value: Any) -> None:
    """Walk the value without recursion: its depth was chosen by the caller."""
    level = [value]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below += item
                below += item.values()
            elif isinstance(item, list):
                below += item
            elif isinstance(item, str):
                _require_text(item)
        if not below:
            return
        level = below
    _too_deep()


def _require_text(text: str) -> None:
    if "\0" in text:
        _refuse("A string contains the character U+0000, which cannot be stored.")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            _refuse("A string contains half of a surrogate pair, which is no character.")


def _too_deep() -> NoReturn:
    _refuse(f"The body is nested more than {MAX_DEPTH} levels deep.")


def _refuse(detail: str) -> NoReturn:
    raise Problem(Kind.INVALID_REQUEST, detail)
