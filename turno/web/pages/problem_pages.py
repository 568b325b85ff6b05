"""Answer an error by a page or a problem document, and sign a visitor in and out."""

import logging

from flask import Response, current_app, g, request
from werkzeug.exceptions import HTTPException

from turno.web.admission import UNKNOWN
from turno.web.auth import MAX_COOKIE_BYTES, begin_session, end_session, require_same_origin, tokens
from turno.web.pages.drawing import draw, go, local, requested_address, sign_in_page
from turno.web.pages.page_routes import Pages
from turno.web.pages.visit import localizer, visit_after_all
from turno.web.responses import MEDIA_TYPE, Kind, Problem, problem_document, problem_of
from turno.web.services import at, over_https, requested_on_this_machine, requested_path, services

log = logging.getLogger(__name__)

PAGE = "text/html"
# Problems that a repeated request may not have.
PASSING = frozenset({429, 500, 503})
MAX_FORM_FIELDS = 100  # of a form of our pages


def answer_error(error: Exception) -> Response:
    """Return the answer to an error of one of Turno's routes; a response that was raised is the answer itself."""
    if isinstance(error, HTTPException) and isinstance(error.response, Response):
        return error.response
    problem = problem_of(error)
    if request.endpoint == UNKNOWN:  # a page for a preference for HTML
        to_people = request.accept_mimetypes.best_match((MEDIA_TYPE, "application/json", PAGE)) == PAGE
    else:
        to_people = isinstance(current_app.blueprints.get(request.blueprint or ""), Pages)
    if not to_people:
        return problem_document(problem)
    if problem.kind is Kind.NOT_AUTHENTICATED:
        return sign_in_page(status=problem.kind.status, notice="signed out")
    return _problem_page(problem)


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
        return requested_address(), []
    fields = list(request.form.items(multi=True))
    if g.get("turno_may_be_sent_again", False) and len(fields) <= MAX_FORM_FIELDS:
        return requested_path(), fields
    return None, []


sign_in = Pages("sign_in", __name__)


@sign_in.post("/sign-in")
def with_token() -> Response:
    """Sign in with a token that was pasted."""
    require_same_origin(request)
    return _begin("".join(request.form.get("token", "").split()))


@sign_in.post("/sign-in/demo")
def with_demo() -> Response:
    """Sign in as the demo's user, where there is a demo."""
    require_same_origin(request)
    token = services().settings.demo_token
    # A foreign site with a name that resolves to this server is its own origin and may send any form.
    if not token or not requested_on_this_machine(request):
        raise Problem(Kind.NOT_FOUND, "There is no demo here.")
    return _begin(token)


@sign_in.post("/sign-out")
def sign_out() -> Response:
    """End the session of this browser."""
    # No form token: the button works after the end of the session, and other sites are refused.
    require_same_origin(request)
    response = go(at("/"))
    end_session(request, response)
    return response


def _begin(token: str) -> Response:
    if over_https(request) and not request.is_secure:
        log.warning(
            "sign-in refused: it came over HTTP from %s, which TURNO_TRUSTED_PROXIES may have to name",
            request.remote_addr,
        )
        return sign_in_page(status=403, notice="not over https")
    if len(token) > MAX_COOKIE_BYTES:
        return sign_in_page(status=400, notice="token too long")
    try:
        principal = tokens().read(token, request.remote_addr)
    except Problem as problem:
        return sign_in_page(status=problem.kind.status, notice="token refused")
    response = go(local(request.form.get("next", "")))
    begin_session(request, response, token, principal, now=services().clock().timestamp())
    return response
