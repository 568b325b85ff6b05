"""Register pages and forms; each requires a session and a branch, a form its CSRF token, too."""

import hmac
from collections.abc import Callable
from functools import wraps

from flask import Blueprint, Response, g, request

from turno.web.auth.csrf import require_same_origin
from turno.web.auth.login import Visitor, visitor_of
from turno.web.auth.tenant_scope import require_change
from turno.web.http.problems import Kind, Problem
from turno.web.pages.drawing import sign_in_page
from turno.web.pages.visit import begin_visit
from turno.web.rate_limits import admit_command
from turno.web.tenant_share import place_of

FORM_TOKEN = "form"  # noqa: S105 - the name of a field

View = Callable[..., Response]


class Pages(Blueprint):
    """A blueprint whose views get a Visit; what goes wrong is told on a page too."""

    def page(self, rule: str) -> Callable[[View], View]:
        """Register a view that shows something; who is not signed in sees the sign-in in its place."""

        def register(view: View) -> View:
            @wraps(view)
            @or_sign_in(200 if rule == "/" else Kind.NOT_AUTHENTICATED.status)
            def shown(**path: str) -> Response:
                visit = begin_visit(visitor_of(request), request.args.get("branch"))
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
                visit = begin_visit(sender_of_form(), request.form.get("branch"))
                require_change(visit.scope.principal)
                with place_of(visit.scope.tenant):
                    admit_command(visit.scope)
                    return view(visit, **path)

            self.add_url_rule(rule, view.__name__, sent, methods=["POST"], provide_automatic_options=False)
            return view

        return register


def or_sign_in(status: int) -> Callable[[View], View]:
    """Show the sign-in, with this status, in the place of a page to who is not signed in."""

    def wrap(view: View) -> View:
        @wraps(view)
        def shown(**path: str) -> Response:
            try:
                return view(**path)
            except Problem as problem:
                if problem.kind is not Kind.NOT_AUTHENTICATED:
                    raise
                return sign_in_page(status=status)

        return shown

    return wrap


def sender_of_form() -> Visitor:
    """Return who sent a form; raises Problem unless a page of ours sent it, drawn in this session."""
    require_same_origin(request)
    visitor = visitor_of(request)
    require_form_token(visitor)
    g.turno_may_be_sent_again = True
    return visitor


def require_form_token(visitor: Visitor) -> None:
    """Raise Problem 403 unless a page of this session was drawn with this form."""
    sent = request.form.get(FORM_TOKEN, "")
    if not hmac.compare_digest(sent.encode(), visitor.form_token.encode()):
        raise Problem(Kind.FOREIGN_SITE, "The form was not sent by a page of this session.")
