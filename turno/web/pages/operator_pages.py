"""The operator's pages and forms: for operators alone, about the tenants of their companies."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from flask import request

from turno.store.operator.filter_values import filter_values
from turno.web.admission import Scope, require_change, require_operator, scope_within
from turno.web.auth.login import Visitor
from turno.web.auth.tokens import Principal
from turno.web.http.responses import Kind, Problem
from turno.web.pages.localizer import Localizer
from turno.web.pages.page_routes import Pages
from turno.web.pages.visit import localizer
from turno.web.services import as_operator, at, services


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorVisit:
    """One request of an operator, about the tenants of their companies, or of all."""

    principal: Principal
    localizer: Localizer
    form_token: str

    @property
    def companies(self) -> list[str] | None:
        """The companies of the visible tenants; None for all."""
        named = self.principal.companies
        return None if named is None else sorted(named)

    def at(self, path: str) -> str:
        """Return the address of a path of ours."""
        return at(path)

    def to(self, path: str, **query: Any) -> str:
        """Return the address of a path below /admin; an empty parameter is left out."""
        given = urlencode({name: text for name, text in query.items() if text not in (None, "")})
        return f"{at('/admin')}{path}{'?' if given else ''}{given}"

    def filter_values(self) -> dict[str, list[str]]:
        """Return the values that the fields tenant, type and error of a filter suggest."""
        types = (handler.type for handler in services().registry.handlers)
        with as_operator() as operator:
            return filter_values(operator, self.companies, types)

    def within(self, tenant: str) -> Scope:
        """Return the scope of one tenant; raises Problem 404 unless it is one that they operate."""
        scope = scope_within(self.principal, tenant)
        if not scope.principal.operator:
            raise Problem(Kind.UNKNOWN_TENANT, "There is no such tenant among the tenants that this token operates.")
        return scope


class OperatorPages(Pages):
    """A blueprint of operator pages: views get an OperatorVisit, problems are answered by a page."""

    @contextmanager
    def visited(self, visitor: Visitor) -> Iterator[OperatorVisit]:
        """Lend the visit of the present request; raises Problem 403 unless an operator sends it."""
        require_operator(visitor.principal)
        if request.method == "POST":
            require_change(visitor.principal)
        yield OperatorVisit(principal=visitor.principal, localizer=localizer(), form_token=visitor.form_token)
