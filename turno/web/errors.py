"""Turn every error into a problem for the client, and log our own faults under its `instance`."""

import logging

from flask import Response, request
from werkzeug.exceptions import HTTPException

from turno.errors import LimitExceeded, RateLimited
from turno.jobs.error_record import line_of
from turno.store.outage import OUTAGE, busy, in_short
from turno.tenancy.schema_migrations.lacking import missing_in
from turno.web.admission import over_limit
from turno.web.http.responses import BUSY_SECONDS, FieldProblem, Kind, Problem, answer, invalid
from turno.web.services import at

log = logging.getLogger(__name__)

RETRY_SECONDS = "5"
MEDIA_TYPE = "application/problem+json"

# Refusals by the framework, with our own texts.
_FRAMEWORK = {
    404: (Kind.NOT_FOUND, "There is nothing at this address."),
    413: (Kind.TOO_LARGE, "The body is larger than this service reads; send less at once."),
    415: (Kind.MEDIA_TYPE, "Send the body as application/json."),
}
_UNREADABLE = (Kind.INVALID_REQUEST, "The request could not be read; send it again as one complete HTTP request.")


def problem_of(error: Exception) -> Problem:
    """Return the problem for any error."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, RateLimited):
        return over_limit(error)
    if isinstance(error, LimitExceeded):
        return invalid([FieldProblem(error.field, str(error))])
    if isinstance(error, HTTPException) and (code := error.code or Kind.FAULT.status) < Kind.FAULT.status:
        return Problem(*_FRAMEWORK.get(code, _UNREADABLE))
    if name := missing_in(error):
        return _older_schema(name)
    if isinstance(error, OUTAGE):
        return _unavailable(error, in_short(error))
    return _fault(error)


def problem_document(problem: Problem) -> Response:
    """Return the problem as a JSON response."""
    response = answer(problem.document(at("")), problem.kind.status, problem.headers)
    response.mimetype = MEDIA_TYPE
    return response


def _unavailable(error: Exception, told: str) -> Problem:
    if busy(error):
        problem = Problem(
            Kind.BUSY,
            "Other work of this tenant blocks this request, so nothing was done. Send it again in a moment.",
            headers={"Retry-After": BUSY_SECONDS},
        )
        log.warning("not had in time: %s", told, extra=_where(problem))
        return problem
    problem = Problem(
        Kind.UNAVAILABLE,
        "The database cannot be reached; the state of this request is unknown. Send it again in a few seconds, "
        "with the same Idempotency-Key if it submits a job.",
        headers={"Retry-After": RETRY_SECONDS},
    )
    log.error("database unavailable: %s", told, extra=_where(problem))
    return problem


def _older_schema(name: str) -> Problem:
    """Return the problem of a schema that is older than this release: its migration is still to come."""
    problem = Problem(
        Kind.UNAVAILABLE,
        f"The schema lacks {name}: run `turno db migrate`, then send the request again.",
        headers={"Retry-After": RETRY_SECONDS},
    )
    log.error("the schema lacks %s: run `turno db migrate`", name, extra=_where(problem))
    return problem


def _fault(error: Exception) -> Problem:
    problem = Problem(Kind.FAULT, "This is our fault, not the request's; it was logged under the id in `instance`.")
    # The log has class and line only: the message may hold data of the request or the payload.
    log.error("request failed: %s at %s", type(error).__name__, line_of(error), extra=_where(problem))
    return problem


def _where(problem: Problem) -> dict[str, str | None]:
    return {"error_id": problem.instance, "method": request.method, "endpoint": request.endpoint}
