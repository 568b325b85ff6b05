"""Register pages and forms; each requires a session and a branch, a form its CSRF token, too."""

import hmac
from collections.abc import Callable
from functools import wraps
from typing import Any

from flask import Blueprint, Response, g, request

from turno.web.auth import session_cookie
from turno.web.auth.csrf import require_same_origin
from turno.web.http.problems import Kind, Problem
from turno.web.pages.drawing import sign_in_page
from turno.web.pages.problem_page import install_problem_pages
from turno.web.pages.visit import begin_visit
from turno.web.rate_limits import admit_command
from turno.web.tenant_share import place_of

FORM_TOKEN = "form"  # noqa: S105 - the name of a field

View = Callable[..., Response]


class Pages(Blueprint):
    """A blueprint whose views get a Visit; what goes wrong is told on a page too."""

    def __init__(self, name: str, import_name: str, **folders: Any) -> None:
        """`folders` are a blueprint's: `template_folder`, `static_folder`, `static_url_path`."""
        super().__init__(name, import_name, **folders)
        install_problem_pages(self)

    def page(self, rule: str) -> Callable[[View], View]:
        """Register a view that shows something; who is not signed in sees the sign-in in its place."""

        def register(view: View) -> View:
            @wraps(view)
            def shown(**path: str) -> Response:
                try:
                    visit = begin_visit(request.args.get("branch"))
                except Problem as problem:
                    if problem.kind is not Kind.NOT_AUTHENTICATED:
                        raise
                    return sign_in_page(status=200 if rule == "/" else problem.kind.status)
                with place_of(visit.scope.tenant):
                    return view(visit, **path)

            self.add_url_rule(rule, view.__name__, shown, methods=["GET"], provide_automatic_options=False)
            return view

        return register

    def form(self, rule: str) -> Callable[[View], View]:
        """Register a view that changes something: sent by our own page, with the session's form token.

        What it changes it changes once, however often the same form is sent.
        """

        def register(view: View) -> View:
            @wraps(view)
            def sent(**path: str) -> Response:
                require_same_origin(request)
                _require_form_token()
                g.may_be_sent_again = True
                visit = begin_visit(request.form.get("branch"))
                with place_of(visit.scope.tenant):
                    admit_command(visit.scope)
                    return view(visit, **path)

            self.add_url_rule(rule, view.__name__, sent, methods=["POST"], provide_automatic_options=False)
            return view

        return register


def _require_form_token() -> None:
    """Raise Problem 403 unless a page of this session was drawn with this form; nobody's session is told of later."""
    token = session_cookie.token_in(request)
    if token is None:
        return
    expected, sent = session_cookie.form_token(token), request.form.get(FORM_TOKEN, "")
    if not hmac.compare_digest(sent.encode(), expected.encode()):
        raise Problem(Kind.FOREIGN_SITE, "The form was not sent by a page of this session.")
