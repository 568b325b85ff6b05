"""Answer every error as a problem document (RFC 9457) with an id that the log carries too."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from turno.errors import LimitExceeded, RateLimited
from turno.store.outage import OUTAGE, busy
from turno.web.http.json_answers import answer
from turno.web.http.problems import TYPE_ROOT, FieldProblem, Kind, Problem, invalid
from turno.web.rate_limit_problems import over_limit

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
PAGE = "text/html"
RETRY_SECONDS = "5"
BUSY_SECONDS = "1"

# What the framework refuses before or beside our own code, in our own words.
_FRAMEWORK = {
    400: (Kind.INVALID_REQUEST, "The request could not be read; send it again as one complete HTTP request."),
    404: (Kind.NOT_FOUND, "There is nothing at this address; /openapi.json lists what there is."),
    405: (Kind.METHOD, "Use one of the methods that the Allow header names."),
    413: (Kind.TOO_LARGE, "The body is larger than this service reads; send less at once."),
    415: (Kind.MEDIA_TYPE, "Send the body as application/json."),
}


def install_error_responses(app: Flask, page_of: Callable[[HTTPException], Response]) -> None:
    """Make every error of this application a problem document.

    Who goes to an address that there is not, and wants to read HTML, gets a page: `page_of` draws it.
    """

    def refused_by_framework(error: HTTPException) -> Response:
        astray = request.routing_exception is not None and _asks_for_a_page()
        return page_of(error) if astray else _refused_by_framework(error)

    app.register_error_handler(Problem, _refused)
    app.register_error_handler(RateLimited, lambda reached: _refused(over_limit(reached)))
    app.register_error_handler(HTTPException, refused_by_framework)
    app.register_error_handler(LimitExceeded, _too_large)
    for outage in OUTAGE:
        app.register_error_handler(outage, _unavailable)
    app.register_error_handler(Exception, _fault)


def problem_answer(
    kind: Kind,
    detail: str,
    *,
    errors: Sequence[FieldProblem] = (),
    headers: Mapping[str, str] | None = None,
    limit: str | None = None,
) -> Response:
    """Return the problem document of one kind."""
    body = {
        "type": TYPE_ROOT + kind.slug,
        "title": kind.title,
        "status": kind.status,
        "detail": detail,
        "instance": f"urn:uuid:{uuid4()}",
    }
    if errors:
        body["errors"] = list(errors)
    if limit:
        body["limit"] = limit
    return _document(body, headers)


def _document(body: dict[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    response = answer(body, body["status"], headers)
    response.mimetype = MEDIA_TYPE
    return response


def _refused(problem: Problem) -> Response:
    return problem_answer(
        problem.kind, problem.detail, errors=problem.errors, headers=problem.headers, limit=problem.limit
    )


def _too_large(error: LimitExceeded) -> Response:
    return _refused(invalid([FieldProblem(error.field, str(error))]))


def _refused_by_framework(error: HTTPException) -> Response:
    code = error.code or Kind.FAULT.status
    if code >= Kind.FAULT.status:
        return _fault(error)
    headers = {name: value for name, value in error.get_headers() if name in {"Allow", "Retry-After"}}
    if code in _FRAMEWORK:
        kind, detail = _FRAMEWORK[code]
        return problem_answer(kind, detail, headers=headers)
    body = {"type": "about:blank", "title": error.name, "status": code, "detail": "The request was not understood."}
    return _document(body | {"instance": f"urn:uuid:{uuid4()}"}, headers)


def _asks_for_a_page() -> bool:
    """Say whether the Accept header prefers HTML, as a browser's does for a link or a typed address."""
    return request.accept_mimetypes.best_match((MEDIA_TYPE, "application/json", PAGE)) == PAGE


def _unavailable(error: Exception) -> Response:
    if busy(error):
        response = problem_answer(
            Kind.BUSY,
            "Other work of this tenant holds what this request needs, so nothing was done. Send it again in a moment.",
            headers={"Retry-After": BUSY_SECONDS},
        )
        log.warning("not had in time: %s", error, extra=_where(response))
        return response
    response = problem_answer(
        Kind.UNAVAILABLE,
        "The database cannot be reached; nothing can be said about this request. Send it again in a few seconds, "
        "with the same Idempotency-Key if it submits a job.",
        headers={"Retry-After": RETRY_SECONDS},
    )
    log.error("database unavailable", extra=_where(response), exc_info=error)
    return response


def _fault(error: Exception) -> Response:
    response = problem_answer(
        Kind.FAULT, "This is our fault, not the request's; it was logged under the id in `instance`."
    )
    log.error("request failed", extra=_where(response), exc_info=error)
    return response


def _where(response: Response) -> dict[str, Any]:
    body = response.get_json()
    return {"error_id": body["instance"], "method": request.method, "endpoint": request.endpoint}
