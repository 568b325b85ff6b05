"""Show a problem as a page, with a way to go on."""

import logging
from collections.abc import Mapping
from uuid import uuid4

from flask import Blueprint, Response, g, request
from werkzeug.exceptions import HTTPException

from turno.errors import RateLimited
from turno.store.outage import OUTAGE, busy
from turno.web.error_responses import BUSY_SECONDS
from turno.web.http.problems import Kind, Problem
from turno.web.pages.drawing import draw, local, sign_in_page
from turno.web.pages.visit import localizer, visit_after_all
from turno.web.rate_limit_problems import over_limit

log = logging.getLogger(__name__)

RETRY_SECONDS = "5"
# What may well succeed when it is asked for once more.
PASSING = frozenset({429, 500, 503})
MOST_FIELDS = 100  # of a form of ours; more is nothing that a page of ours has sent


def install_problem_pages(pages: Blueprint) -> None:
    """Answer errors of these views with a page."""
    pages.register_error_handler(Problem, _refused)
    pages.register_error_handler(RateLimited, lambda reached: _refused(over_limit(reached)))
    pages.register_error_handler(HTTPException, refused_by_framework)
    for outage in OUTAGE:
        pages.register_error_handler(outage, _unavailable)
    pages.register_error_handler(Exception, _fault)


def refused_by_framework(error: HTTPException) -> Response:
    """Answer what the framework refused before any view, such as an unknown address."""
    code = error.code or Kind.FAULT.status
    if code >= Kind.FAULT.status:
        return _fault(error)
    return _problem_page(code, headers={name: text for name, text in error.get_headers() if name == "Allow"})


def _refused(problem: Problem) -> Response:
    if problem.kind is Kind.NOT_AUTHENTICATED:
        return sign_in_page(status=problem.kind.status, notice="signed out")
    phrase = "problem busy" if problem.kind is Kind.BUSY else None
    return _problem_page(problem.kind.status, phrase=phrase, headers=problem.headers)


def _unavailable(error: Exception) -> Response:
    if busy(error):
        log.warning("not had in time: %s", error, extra={"endpoint": request.endpoint})
        return _problem_page(Kind.BUSY.status, phrase="problem busy", headers={"Retry-After": BUSY_SECONDS})
    log.error("database unavailable", extra={"endpoint": request.endpoint}, exc_info=error)
    return _problem_page(Kind.UNAVAILABLE.status, headers={"Retry-After": RETRY_SECONDS})


def _fault(error: Exception) -> Response:
    named = str(uuid4())
    log.error("request failed", extra={"error_id": named, "endpoint": request.endpoint}, exc_info=error)
    return _problem_page(Kind.FAULT.status, named=named)


def _problem_page(
    status: int, *, phrase: str | None = None, named: str | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the page of a problem within the visitor's frame, as far as there is one."""
    spoken, visit = localizer(), visit_after_all()
    phrase = phrase or f"problem {status}"
    again, fields = _again() if status in PASSING else (None, [])
    response = draw(
        "pages/problem.html",
        status=status,
        visit=visit,
        live=False,
        phrase=phrase if spoken.known(phrase) else "problem 400",
        named=named,
        again=again,
        fields=fields,
    )
    response.headers.update(headers or {})
    return response


def _again() -> tuple[str | None, list[tuple[str, str]]]:
    """Return the address to ask for once more, with the fields of the form that is to be sent there again."""
    if request.method == "GET":
        return local(request.full_path.rstrip("?")), []
    fields = list(request.form.items(multi=True))
    if g.get("may_be_sent_again", False) and len(fields) <= MOST_FIELDS:
        return request.path, fields
    return None, []
