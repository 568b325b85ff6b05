"""Read requests: headers, ids, query strings and bodies, into the types that document them."""

import math
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cache, partial
from threading import Lock
from typing import Annotated, Any, Generic, NamedTuple, NoReturn, TypeVar, get_type_hints
from uuid import UUID, uuid4

from flask import Request
from msgspec import Meta
from werkzeug.datastructures import MultiDict
from werkzeug.exceptions import RequestEntityTooLarge

from turno.errors import InvalidPayload
from turno.jobs.converter import check_payload, converter
from turno.jobs.handler import JobHandler
from turno.jobs.json_text import NotJson, parse_json
from turno.jobs.misfits import alternatives
from turno.jobs.moment import moment_of
from turno.jobs.new_job import IDEMPOTENCY_KEY
from turno.web.responses import FieldProblem, Kind, Problem, invalid

# The only form of an id in this API; UUID() would also take braces, urn: and missing hyphens.
WRITTEN = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)


def read_id(text: str, unknown: Problem) -> UUID:
    """Return the id, or raise the very problem that an unknown id would raise."""
    if not WRITTEN.fullmatch(text.lower()):
        raise unknown
    return UUID(text)


CORRELATION_ID = r"[A-Za-z0-9._:-]{1,128}"


def idempotency_key(request: Request) -> str | None:
    """Return the Idempotency-Key if there is one; raises Problem 400 unless it is 1 to 255 visible ASCII."""
    key: str | None = request.environ.get("HTTP_IDEMPOTENCY_KEY")
    if key is not None and not re.fullmatch(IDEMPOTENCY_KEY, key):
        raise invalid([FieldProblem("Idempotency-Key", "must be 1 to 255 visible ASCII characters without spaces")])
    return key


def correlation_id(request: Request) -> str:
    """Return the X-Correlation-Id, or a new one; raises Problem 400 if it is unfit for a log line."""
    given: str | None = request.environ.get("HTTP_X_CORRELATION_ID")
    if given is None:
        return str(uuid4())
    if not re.fullmatch(CORRELATION_ID, given):
        raise invalid([FieldProblem("X-Correlation-Id", "must be 1 to 128 letters, digits or the characters . _ : -")])
    return given


B = TypeVar("B")

SMALL_BODY_BYTES = 16 * 1024  # bytes, checked within a millisecond
LONGEST_FIELD = 200
_computing = Lock()
_PASSING = nullcontext()


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
    if request.environ.get("CONTENT_TYPE") != "application/json":
        charset = request.mimetype_params.get("charset", "utf-8").lower()
        if request.mimetype != "application/json" or charset not in {"utf-8", "utf8"}:
            _refuse_media_type("Send the body as application/json in UTF-8.", "application/json")
    try:
        text = _read(request, "application/json").decode()
        value = parse_json(text)
    except UnicodeDecodeError:
        raise Problem(Kind.INVALID_REQUEST, "The body is not valid UTF-8.") from None
    except NotJson as error:
        path, problem = error.problems[0]
        if path:
            raise invalid([FieldProblem(*problem) for problem in error.problems]) from None
        raise Problem(Kind.INVALID_REQUEST, f"The body {problem}.") from None
    if not isinstance(value, dict):
        raise Problem(Kind.INVALID_REQUEST, "The body must be a JSON object.")
    return JsonBody(text, value)


def read_bytes(request: Request) -> bytes:
    """Return the bytes of the body; raises Problem 415 for another media type than octets, 413 beyond the limit."""
    if request.mimetype != "application/octet-stream":
        _refuse_media_type("Send the piece as application/octet-stream.", "application/octet-stream")
    return _read(request, "application/octet-stream")


def read_body(request: Request, kind: type[B]) -> B:
    """Return the JSON body as a value of `kind`; raises Problem 413, 415, or 400 with each field that does not fit."""
    with large_body_lock(request):
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
    pairs = zip(paths, error.problems, strict=True)
    return [FieldProblem(path[:LONGEST_FIELD] or "body", problem["problem"]) for path, problem in pairs]


def large_body_lock(request: Request) -> AbstractContextManager[object]:
    """Return a block in which only one thread checks a large body; small bodies pass.

    The interpreter lock lets only one thread compute, and a request that returns from the database waits for every
    computing thread: with eight large bodies, eight times as long as with one.
    """
    length = request.content_length
    return _computing if length is None or length > SMALL_BODY_BYTES else _PASSING


def _loaded(body: JsonBody, kind: Any) -> Any:
    try:
        return converter(kind).load(body.text)
    except InvalidPayload as error:
        raise invalid(field_problems(error)) from error


def _read(request: Request, media_type: str) -> bytes:
    if request.environ.get("HTTP_CONTENT_ENCODING", "identity").lower() != "identity":
        _refuse_media_type("Send the body without a Content-Encoding.", media_type)
    body = request.get_data(cache=False)
    # Werkzeug refuses an announced length, but silently cuts a streamed body at the limit.
    if request.content_length is None and len(body) >= (request.max_content_length or math.inf):
        raise RequestEntityTooLarge
    return body


def _refuse_media_type(detail: str, accepted: str) -> NoReturn:
    raise Problem(Kind.MEDIA_TYPE, detail, headers={"Accept": accepted})


LONGEST_TEXT = 255
LARGEST_PAGE = 200
LARGEST_ID = 2**63 - 1
# The default of a parameter that may be left out; of a type that no parameter's text is converted to.
NOT_GIVEN: Any = None


def searchable(text: str) -> str:
    """Return the text of a filter's field as the database can search it; a form sends empty fields, too."""
    return text.strip().replace("\0", "")[:LONGEST_TEXT]


def described(about: str, **constraints: Any) -> Meta:
    """Return the description and the constraints of a parameter, for `Annotated`."""
    return Meta(description=about, **constraints)


Text = Annotated[str, Meta(min_length=1, max_length=LONGEST_TEXT, pattern=r"^[^\u0000]*$")]
Moment = Annotated[datetime, Meta(tz=True)]

AFTER = "The `next_cursor` of the page before."
PageSize = Annotated[int, described("How many entries a page has.", ge=1, le=LARGEST_PAGE)]
JobCursor = Annotated[UUID, described(AFTER)]
KeyCursor = Annotated[Text, described(AFTER)]
NumberCursor = Annotated[int, described(AFTER, ge=0, le=LARGEST_ID)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoQuery:
    """An address that takes no parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPageQuery:
    """A page of entries with UUIDs as ids, after the last entry of the page before."""

    cursor: JobCursor = NOT_GIVEN
    limit: PageSize = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPageQuery:
    """A page of entries in the order of their names, after the last one of the page before."""

    cursor: KeyCursor = ""
    limit: PageSize = 50


NO_PARAMETERS: MultiDict[str, str] = MultiDict()
# The value without parameters, and the annotation of each field, evaluated once.
_defaults: Callable[[Any], Any] = cache(lambda kind: converter(kind).convert({}))
_hints: Callable[[Any], dict[str, Any]] = cache(partial(get_type_hints, include_extras=True))


def read_query(given: MultiDict[str, str], kind: type[Any], *, others_ignored: bool = False) -> Any:
    """Return the query string as an instance of `kind`; raises Problem 400 listing all that is wrong.

    Unknown parameters are problems unless `others_ignored`: links to a page may carry parameters of other programs. A
    field with a tuple as its default may be given several times.
    """
    known, hints = {field.name: field for field in fields(kind)}, _hints(kind)
    problems: list[FieldProblem] = []
    values: dict[str, Any] = {}
    for name, texts in given.lists():
        if name not in known:
            if not others_ignored:
                problems.append(FieldProblem(name[:LONGEST_TEXT], "is not a parameter of this address"))
        elif isinstance(known[name].default, tuple):
            values[name] = texts
        elif len(texts) > 1:
            problems.append(FieldProblem(name, "may be given once"))
        else:
            try:
                values[name] = _parsed(hints[name], texts[0])
            except ValueError as error:
                problems.append(FieldProblem(name, str(error)))
    try:
        query = converter(kind).convert(values) if values else _defaults(kind)
    except InvalidPayload as error:
        problems += [
            FieldProblem(problem.field.partition(".")[0], problem.problem) for problem in field_problems(error)
        ]
    if problems:
        raise invalid(problems)
    return query


def _parsed(annotation: Any, text: str) -> Any:
    """Return a parameter's text as a number, a truth value or a moment if its annotation has one.

    Text that is no number or truth value stays text, which the converter refuses. Raises ValueError for a wrong moment.
    """
    kinds = alternatives(annotation)
    if int in kinds and re.fullmatch("[0-9]{1,19}", text):
        return int(text)
    if bool in kinds and text in {"true", "false"}:
        return text == "true"
    return moment_of(text, datetime.now(UTC)).isoformat() if datetime in kinds else text
