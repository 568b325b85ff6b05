"""JSON responses, and the problems (RFC 9457) that refuse a request or report an error."""

import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from enum import Enum
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from uuid import uuid4

from flask import Response, request
from flask.json.provider import DefaultJSONProvider
from msgspec import UNSET, Meta, UnsetType, to_builtins
from werkzeug.datastructures import Headers
from werkzeug.exceptions import HTTPException

from turno.errors import LimitExceeded, RateLimited
from turno.jobs.error_record import line_of
from turno.jobs.moment import written
from turno.store.outage import OUTAGE, busy, in_short
from turno.tenancy.schema_migrations.lacking import missing_in
from turno.web.services import at, services

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

log = logging.getLogger(__name__)

TYPE_ROOT = "/docs#"
BUSY_SECONDS = "1"  # of Retry-After while other requests of the tenant run
# Largest list in one answer: the client repairs these first, and a list of all problems can exceed the body in size.
MAX_LISTED_PROBLEMS = 100


@dataclass(frozen=True)
class FieldProblem:
    """The problem of one field of the request."""

    field: str
    problem: str


class Kind(Enum):
    """The kinds of problems: a name that ends the `type`, the HTTP status, and the summary."""

    INVALID_REQUEST = ("invalid-request", 400, "The request is not valid")
    NO_TENANT = ("tenant-missing", 400, "No tenant was chosen")
    NOT_AUTHENTICATED = ("not-authenticated", 401, "A valid token is needed")
    OPERATORS_ONLY = ("operators-only", 403, "Only operators may do this")
    READ_ONLY = ("read-only", 403, "This role may only read")
    FOREIGN_SITE = ("foreign-site", 403, "Another site may not do this")
    UNKNOWN_TENANT = ("unknown-tenant", 404, "There is no such tenant")
    NOT_FOUND = ("not-found", 404, "The object does not exist")
    METHOD = ("method-not-allowed", 405, "This address does not know that method")
    ENDED = ("job-state", 409, "The job's state does not allow this")
    TOO_LARGE = ("too-large", 413, "The request is too large")
    MEDIA_TYPE = ("media-type", 415, "The body has the wrong type")
    UNKNOWN_TYPE = ("unknown-job-type", 422, "There is no such job type")
    KEY_REUSED = ("idempotency-key-reused", 422, "The idempotency key belongs to another request")
    REFUSED = ("work-refused", 422, "The requested work cannot be done")
    QUOTA = ("quota-reached", 429, "Too many jobs are open")
    RATE = ("rate-limit-reached", 429, "A rate limit is reached")
    CROWDED = ("too-many-streams", 429, "Too many streams are open")
    FAULT = ("internal-fault", 500, "Something failed here")
    BUSY = ("tenant-busy", 503, "The tenant has other work in hand")
    UNAVAILABLE = ("unavailable", 503, "The service cannot answer just now")

    def __init__(self, slug: str, status: int, title: str) -> None:
        self.slug = slug
        self.status = status
        self.title = title


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemDocument:
    """The answer to a refused request (RFC 9457)."""

    type: Annotated[str, Meta(pattern=f"{TYPE_ROOT}({'|'.join(kind.slug for kind in Kind)})$")]
    title: str
    status: int
    detail: Annotated[str, Meta(description="The problem, then its remedy.")]
    instance: Annotated[str, Meta(description="The id of this error.")]
    limit: Annotated[str, Meta(description="With 429: the limit, such as `jobs_per_day_per_user`.")] | UnsetType = UNSET
    errors: tuple[FieldProblem, ...] | UnsetType = UNSET


class Problem(Exception):
    """Raised to refuse the request; `detail` is a sentence the caller can act on, `instance` names this refusal."""

    def __init__(
        self,
        kind: Kind,
        detail: str,
        *,
        errors: Sequence[FieldProblem] = (),
        headers: Mapping[str, str] | None = None,
        limit: str | None = None,
    ) -> None:
        """`limit` is the exceeded limit, by its name in TURNO_LIMITS."""
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.errors = tuple(errors)
        self.headers = dict(headers or {})
        self.limit = limit
        self.instance = f"urn:uuid:{uuid4()}"

    def document(self, root: str) -> dict[str, Any]:
        """Return the problem document (RFC 9457); its `type` leads to /docs below `root`."""
        document = ProblemDocument(
            type=root + TYPE_ROOT + self.kind.slug,
            title=self.kind.title,
            status=self.kind.status,
            detail=self.detail,
            instance=self.instance,
            errors=self.errors or UNSET,
            limit=self.limit or UNSET,
        )
        body: dict[str, Any] = to_builtins(document)
        return body


def invalid(errors: Sequence[FieldProblem]) -> Problem:
    """Return the 400 that lists up to MAX_LISTED_PROBLEMS wrong fields, and the number of further ones."""
    what = "one field is" if len(errors) == 1 else f"{len(errors)} fields are"
    listed = list(errors[:MAX_LISTED_PROBLEMS])
    if len(errors) > MAX_LISTED_PROBLEMS:
        listed.append(FieldProblem("body", f"has {len(errors) - MAX_LISTED_PROBLEMS} more problems like these"))
    return Problem(Kind.INVALID_REQUEST, f"Nothing was done: {what} not valid; see errors.", errors=listed)


def no_such_job() -> Problem:
    """Return the 404 for an id that is malformed, unknown, another user's or another tenant's alike."""
    return Problem(Kind.NOT_FOUND, "No job with this id can be seen with this token in this tenant.")


_names: Callable[[Any], tuple[str, ...]] = cache(lambda kind: tuple(field.name for field in fields(kind)))


_encode = json.JSONEncoder(default=lambda moment: written(moment, "auto")).encode


def dumps(value: Any) -> str:
    """Return `value` as the JSON that every answer is written in: one line of ASCII."""
    return _encode(to_builtins(value, builtin_types=(datetime,), str_keys=True, enc_hook=DefaultJSONProvider.default))


class JsonResponse(Response):
    """A response whose headers are sent as they are, without another copy."""

    default_mimetype = "application/json"

    def get_wsgi_headers(self, environ: "WSGIEnvironment") -> Headers:
        """Return the headers; Werkzeug's own for 304, which has fewer, and below a prefix that is not ASCII."""
        if self.status_code == HTTPStatus.NOT_MODIFIED or not environ.get("SCRIPT_NAME", "").isascii():
            return super().get_wsgi_headers(environ)
        return self.headers


def answer(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return the response that carries `body` as JSON."""
    return JsonResponse(dumps(body), status, headers)


B = TypeVar("B")


def from_row(kind: type[B], row: Mapping[str, Any], **computed: Any) -> B:
    """Return a body: a field that is not `computed` has the value of the row's column of the same name."""
    stored = {name: row[name] for name in _names(kind) if name not in computed}
    return kind(**stored, **computed)


def page_of(
    rows: Sequence[Mapping[str, Any]], limit: int, body: Callable[[Any], B], cursor: str
) -> tuple[list[B], Any]:
    """Return the bodies of at most `limit` rows, and the last one's column `cursor` if there are more rows."""
    shown = rows[:limit]
    return [body(row) for row in shown], shown[-1][cursor] if len(rows) > limit else None


RETRY_SECONDS = "5"
MEDIA_TYPE = "application/problem+json"

# Refusals by the framework, with our own texts.
_FRAMEWORK = {
    404: (Kind.NOT_FOUND, "There is nothing at this address."),
    413: (Kind.TOO_LARGE, "The body is larger than this service reads; send less at once."),
    415: (Kind.MEDIA_TYPE, "Send the body as application/json."),
}
_UNREADABLE = (Kind.INVALID_REQUEST, "The request could not be read; send it again as one complete HTTP request.")


def over_limit(reached: RateLimited) -> Problem:
    """Return the 429 for a limit that is earned back with time."""
    # A tenant's and a type's jobs a day are also set while everything runs: the settings have another number, or none.
    fixed = reached.name != "jobs_per_day_per_tenant"
    most = getattr(services().settings.limits, reached.name, None) if fixed else None
    what = reached.name.replace("_", " ").replace(" mb ", " MB ")
    what = what if most is None else f"{most:,} {what}"
    return Problem(
        Kind.RATE,
        f"The limit of {what} is reached; send this again after the seconds that Retry-After names.",
        headers={"Retry-After": str(max(1, math.ceil(reached.retry_in)))},
        limit=reached.name,
    )


def over_quota(subject: str) -> Problem:
    """Return the 429 for a user with as many open jobs as one may have."""
    most = services().settings.limits.pending_jobs_per_user
    return Problem(
        Kind.QUOTA,
        f"{subject} {most} jobs waiting or running, which is the limit; wait for one to end or cancel one.",
        headers={"Retry-After": RETRY_SECONDS},
        limit="pending_jobs_per_user",
    )


def problem_of(error: Exception) -> Problem:
    """Return the problem for any error; an outage and a fault of the service are logged under the problem's id."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, RateLimited):
        return over_limit(error)
    if isinstance(error, LimitExceeded):
        return invalid([FieldProblem(error.field, str(error))])
    if isinstance(error, HTTPException) and (code := error.code or Kind.FAULT.status) < Kind.FAULT.status:
        return Problem(*_FRAMEWORK.get(code, _UNREADABLE))
    later = {"Retry-After": RETRY_SECONDS}
    if name := missing_in(error):
        lack = f"the schema lacks {name}: run `turno db migrate`"
        problem = Problem(Kind.UNAVAILABLE, f"T{lack[1:]}, then send the request again.", headers=later)
        return _logged(problem, logging.ERROR, lack)
    if isinstance(error, OUTAGE):
        if busy(error):
            text = "Other work of this tenant blocks this request, so nothing was done. Send it again in a moment."
            problem = Problem(Kind.BUSY, text, headers={"Retry-After": BUSY_SECONDS})
            return _logged(problem, logging.WARNING, "not had in time: %s", in_short(error))
        text = (
            "The database cannot be reached; the state of this request is unknown. Send it again in a few seconds, "
            "with the same Idempotency-Key if it submits a job."
        )
        problem = Problem(Kind.UNAVAILABLE, text, headers=later)
        return _logged(problem, logging.ERROR, "database unavailable: %s", in_short(error))
    problem = Problem(Kind.FAULT, "This is our fault, not the request's; it was logged under the id in `instance`.")
    # The log has class and line only: the message may hold data of the request or the payload.
    return _logged(problem, logging.ERROR, "request failed: %s at %s", type(error).__name__, line_of(error))


def _logged(problem: Problem, level: int, text: str, *values: str | None) -> Problem:
    about = {"error_id": problem.instance, "method": request.method, "endpoint": request.endpoint}
    log.log(level, text, *values, extra=about)
    return problem


def problem_document(problem: Problem) -> Response:
    """Return the problem as a JSON response."""
    response = answer(problem.document(at("")), problem.kind.status, problem.headers)
    response.mimetype = MEDIA_TYPE
    return response
