"""Pages and forms that cannot be added without a session, a branch and, for a form, proof that it is ours."""

import hmac
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, cast
from urllib.parse import urlencode, urlsplit
from uuid import uuid4

from flask import Blueprint, Response, redirect, render_template, request
from werkzeug.exceptions import HTTPException

from app.store.outage import OUTAGE
from app.web import session_cookie
from app.web.own_site import require_own_site
from app.web.pages.branches import branches_of
from app.web.pages.language import language_of, remember_language
from app.web.pages.speech import Speech
from app.web.problems import Kind, Problem
from app.web.services import services
from app.web.tenant_scope import Scope, scope_within
from app.web.tokens import Principal

log = logging.getLogger(__name__)

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
FORM_TOKEN = "form"  # noqa: S105 - the name of a field
SEE_OTHER = 303


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One request of somebody who is signed in, within one branch."""

    scope: Scope
    branches: tuple[str, ...]
    speech: Speech
    form_token: str

    @property
    def branch(self) -> str:
        """The branch's slug."""
        return self.scope.tenant.slug

    @property
    def user(self) -> str:
        """Who visits."""
        return self.scope.principal.user

    def to(self, path: str, **query: Any) -> str:
        """Return an address within this branch; what is empty is left out."""
        given = {"branch": self.branch} | query
        return f"{path}?{urlencode({name: text for name, text in given.items() if text not in (None, '')})}"

    @property
    def session(self) -> str:
        """A name for this session that tells nothing about it: what tabs of another one must not share."""
        return self.form_token[:16]


View = Callable[..., Response]


class Pages(Blueprint):
    """A blueprint whose views get a Visit; what goes wrong is told on a page too."""

    def __init__(self, name: str, import_name: str) -> None:
        super().__init__(name, import_name)
        self.register_error_handler(Problem, _refused)
        self.register_error_handler(HTTPException, _refused_by_framework)
        for outage in OUTAGE:
            self.register_error_handler(outage, _unavailable)
        self.register_error_handler(Exception, _fault)

    def page(self, rule: str) -> Callable[[View], View]:
        """Register a view that shows something; who is not signed in sees the sign-in in its place."""

        def register(view: View) -> View:
            @wraps(view)
            def shown(**path: str) -> Response:
                try:
                    visit = _visit(request.args.get("branch"))
                except Problem as problem:
                    if problem.kind is not Kind.NOT_AUTHENTICATED:
                        raise
                    return sign_in_page(status=200 if rule == "/" else problem.kind.status)
                return view(visit, **path)

            self.add_url_rule(rule, view.__name__, shown, methods=["GET"], provide_automatic_options=False)
            return view

        return register

    def form(self, rule: str) -> Callable[[View], View]:
        """Register a view that changes something: sent by our own page, with the session's form token."""

        def register(view: View) -> View:
            @wraps(view)
            def sent(**path: str) -> Response:
                require_own_site(request)
                visit = _visit(request.form.get("branch"))
                if not hmac.compare_digest(request.form.get(FORM_TOKEN, "").encode(), visit.form_token.encode()):
                    raise Problem(Kind.FOREIGN_SITE, "The form was not sent by a page of this session.")
                return view(visit, **path)

            self.add_url_rule(rule, view.__name__, sent, methods=["POST"], provide_automatic_options=False)
            return view

        return register


def speech() -> Speech:
    """Return the present reader's language."""
    return Speech(language_of(request), services().clock())


def draw(template: str, *, status: int = 200, visit: Visit | None = None, **context: Any) -> Response:
    """Return a page; `visit` is None where nobody is signed in."""
    spoken = visit.speech if visit else speech()
    text = render_template(
        f"pages/{template}",
        visit=visit,
        say=spoken.say,
        speech=spoken,
        here=_here,
        **context,
    )
    response = Response(text, status, mimetype="text/html")
    response.headers["Content-Security-Policy"] = POLICY
    response.headers["Content-Language"] = spoken.language
    remember_language(request, response)
    return response


def go(address: str) -> Response:
    """Send the browser on to a page, so that reloading repeats no form."""
    return cast("Response", redirect(address, SEE_OTHER))


def sign_in_page(*, status: int = 200, notice: str | None = None) -> Response:
    """Return the sign-in, which leads back to what was asked for."""
    wanted = request.form.get("next") or (request.full_path.rstrip("?") if request.method == "GET" else "/")
    return draw(
        "sign_in.html",
        status=status,
        notice=notice,
        next=local(wanted),
        demo=bool(services().settings.demo_token),
    )


def local(address: str) -> str:
    """Return the address if it leads to a page of ours, else the first page."""
    parts = urlsplit(address)
    foreign = parts.scheme or parts.netloc or not address.startswith("/") or address.startswith(("//", "/\\"))
    return "/" if foreign or not address.isprintable() else address


def _visit(branch: str | None) -> Visit:
    token = session_cookie.token_in(request)
    if token is None:
        raise Problem(Kind.NOT_AUTHENTICATED, "Nobody is signed in.")
    principal = services().tokens.read(token)
    branches = branches_of(principal)
    return Visit(
        scope=_scope(principal, branch, branches),
        branches=branches,
        speech=speech(),
        form_token=session_cookie.form_token(token),
    )


def _scope(principal: Principal, branch: str | None, branches: tuple[str, ...]) -> Scope:
    if branch is None and not branches:
        raise Problem(Kind.UNKNOWN_TENANT, "The token opens no branch.")
    return scope_within(principal, branch or branches[0])


def _here(**changed: Any) -> str:
    """Return the present address with some of its query changed; what is None is left out."""
    query = {**request.args.to_dict(), **changed}
    query.pop("notice", None)
    kept = urlencode({name: text for name, text in query.items() if text is not None})
    return f"{request.path}?{kept}" if kept else request.path


def _refused(problem: Problem) -> Response:
    if problem.kind is Kind.NOT_AUTHENTICATED:
        return sign_in_page(status=problem.kind.status, notice="signed out")
    return _problem_page(problem.kind.status)


def _refused_by_framework(error: HTTPException) -> Response:
    return _fault(error) if (error.code or 500) >= Kind.FAULT.status else _problem_page(error.code or 400)


def _unavailable(error: Exception) -> Response:
    log.error("database unavailable", extra={"endpoint": request.endpoint}, exc_info=error)
    response = _problem_page(Kind.UNAVAILABLE.status)
    response.headers["Retry-After"] = "5"
    return response


def _fault(error: Exception) -> Response:
    named = str(uuid4())
    log.error("request failed", extra={"error_id": named, "endpoint": request.endpoint}, exc_info=error)
    return _problem_page(Kind.FAULT.status, named)


def _problem_page(status: int, named: str | None = None) -> Response:
    spoken = speech()
    phrase = f"problem {status}"
    return draw("problem.html", status=status, phrase=phrase if spoken.known(phrase) else "problem 400", named=named)
