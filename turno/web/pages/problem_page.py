"""Answer an error: with a page that offers the next step to a browser, with a problem document to a program."""

from flask import Response, current_app, g, request
from werkzeug.exceptions import HTTPException

from turno.web.errors import MEDIA_TYPE, problem_document, problem_of
from turno.web.http.responses import Kind, Problem
from turno.web.pages.drawing import asked_address, draw, sign_in_page
from turno.web.pages.page_routes import Pages
from turno.web.pages.visit import localizer, visit_after_all
from turno.web.security import UNKNOWN
from turno.web.services import asked_path

PAGE = "text/html"
# Problems that a repeated request may not have.
PASSING = frozenset({429, 500, 503})
MAX_FORM_FIELDS = 100  # of a form of our pages


def answer_error(error: Exception) -> Response:
    """Return the answer to an error of one of Turno's routes; a response that was raised is the answer itself."""
    if isinstance(error, HTTPException) and isinstance(error.response, Response):
        return error.response
    problem = problem_of(error)
    if not _told_to_people():
        return problem_document(problem)
    if problem.kind is Kind.NOT_AUTHENTICATED:
        return sign_in_page(status=problem.kind.status, notice="signed out")
    return _problem_page(problem)


def _told_to_people() -> bool:
    """Return whether the request is for a page, or for an unknown address with a preference for HTML."""
    if request.endpoint == UNKNOWN:
        return request.accept_mimetypes.best_match((MEDIA_TYPE, "application/json", PAGE)) == PAGE
    return isinstance(current_app.blueprints.get(request.blueprint or ""), Pages)


def _problem_page(problem: Problem) -> Response:
    """Return the page of a problem within the visitor's frame, as far as there is one."""
    kind, spoken = problem.kind, localizer()
    phrases = f"problem {kind.slug}", f"problem {kind.status}", "problem 400"
    again, fields = _again() if kind.status in PASSING else (None, [])
    response = draw(
        "turno/problem.html",
        status=kind.status,
        visit=visit_after_all(),
        live=False,
        phrase=next(phrase for phrase in phrases if spoken.known(phrase)),
        named=problem.instance if kind is Kind.FAULT else None,
        again=again,
        fields=fields,
    )
    response.headers.update(problem.headers)
    return response


def _again() -> tuple[str | None, list[tuple[str, str]]]:
    """Return the address to ask for once more, with the fields of the form that is to be sent there again."""
    if request.method == "GET":
        return asked_address(), []
    fields = list(request.form.items(multi=True))
    if g.get("turno_may_be_sent_again", False) and len(fields) <= MAX_FORM_FIELDS:
        return asked_path(), fields
    return None, []
