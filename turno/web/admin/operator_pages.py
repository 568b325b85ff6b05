"""Register the operator's pages and their forms: for operators alone, of the companies that they operate."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import wraps
from typing import Any
from urllib.parse import urlencode

from flask import Response, request

from turno.store.operator.board import Operator
from turno.web.addresses import at
from turno.web.auth.login import Visitor, visitor_of
from turno.web.auth.principal import Principal
from turno.web.auth.tenant_scope import Scope, require_change, require_operator, scope_within
from turno.web.http.problems import Kind, Problem
from turno.web.pages.localizer import Localizer
from turno.web.pages.page_routes import Pages, or_sign_in, sender_of_form
from turno.web.pages.visit import localizer
from turno.web.services import lend_operator

View = Callable[..., Response]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorVisit:
    """One request of an operator, about the tenants of their companies, or of all."""

    principal: Principal
    localizer: Localizer
    form_token: str

    @property
    def companies(self) -> list[str] | None:
        """The companies whose tenants they see; None for all."""
        named = self.principal.companies
        return None if named is None else sorted(named)

    def at(self, path: str) -> str:
        """Return the address of a path of ours."""
        return at(path)

    def to(self, path: str, **query: Any) -> str:
        """Return the address of a path below /admin; what is empty is left out."""
        given = urlencode({name: text for name, text in query.items() if text not in (None, "")})
        return f"{at('/admin')}{path}{'?' if given else ''}{given}"

    def within(self, tenant: str) -> Scope:
        """Return the scope of one tenant; raises Problem 404 unless it is one that they operate."""
        scope = scope_within(self.principal, tenant)
        if not scope.principal.operator:
            raise Problem(Kind.UNKNOWN_TENANT, "There is no such tenant among those that this token operates.")
        return scope


def as_operator() -> AbstractContextManager[Operator]:
    """Lend a session of the operator's login: it sees all tenants, so whatever is read by it names the companies."""
    return lend_operator()()


class OperatorPages(Pages):
    """A blueprint whose views get an OperatorVisit; what goes wrong is told on a page, too."""

    def screen(self, rule: str) -> Callable[[View], View]:
        """Register a view that shows something; who is not signed in sees the sign-in in its place."""

        def register(view: View) -> View:
            @wraps(view)
            @or_sign_in(Kind.NOT_AUTHENTICATED.status)
            def shown(**path: str) -> Response:
                return view(_visit(visitor_of(request)), **path)

            self.add_url_rule(rule, view.__name__, shown, methods=["GET"], provide_automatic_options=False)
            return view

        return register

    def action(self, rule: str) -> Callable[[View], View]:
        """Register a view that changes something: sent by our own page, by who may change, with the form's token."""

        def register(view: View) -> View:
            @wraps(view)
            def sent(**path: str) -> Response:
                visit = _visit(sender_of_form())
                require_change(visit.principal)
                return view(visit, **path)

            self.add_url_rule(rule, view.__name__, sent, methods=["POST"], provide_automatic_options=False)
            return view

        return register


def _visit(visitor: Visitor) -> OperatorVisit:
    require_operator(visitor.principal)
    return OperatorVisit(principal=visitor.principal, localizer=localizer(), form_token=visitor.form_token)
