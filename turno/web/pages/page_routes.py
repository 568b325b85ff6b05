"""Register pages and forms; each requires a session and a branch, and a form the CSRF token of the session."""

import hmac
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal, get_type_hints
from urllib.parse import urlencode

from flask import Blueprint, Response, g, request
from werkzeug.datastructures import MultiDict

from turno.store.operator.counts import filter_values
from turno.web.admission import (
    Scope,
    admit_command,
    require_change,
    require_everywhere,
    require_operator,
    scope_within,
    tenant_thread,
)
from turno.web.auth import Principal, Visitor, require_same_origin, visitor_of
from turno.web.pages.drawing import sign_in_page
from turno.web.pages.localizer import Localizer
from turno.web.pages.visit import begin_visit, localizer
from turno.web.requests import NOT_GIVEN, Text, read_query
from turno.web.responses import Kind, Problem
from turno.web.services import as_operator, at, services

FORM_TOKEN = "form"  # noqa: S105 - the name of a field

View = Callable[..., Response]
Notice = Literal["", "replayed", "cut", "none", "quota", "ended", "not_retryable", "done", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageQuery:
    """The query of every page."""

    branch: Text = NOT_GIVEN
    lang: Text = NOT_GIVEN
    notice: Notice = ""


class Pages(Blueprint):
    """A blueprint of pages: views get a Visit, problems are answered by a page.

    A view's parameter `query` receives the query string, or the fields of the form, as the annotated dataclass.
    """

    def page(self, rule: str) -> Callable[[View], View]:
        """Register a view that shows a page; a visitor without a session sees the sign-in in its place."""
        return self._view("GET", rule)

    def form(self, rule: str, *, everywhere: bool = False) -> Callable[[View], View]:
        """Register a view of a change: a page of ours sent the form, with the token of the session.

        A form that is sent again changes nothing again. With `everywhere` only an operator of every company may send
        it.
        """
        return self._view("POST", rule, everywhere=everywhere)

    def _view(self, method: str, rule: str, *, everywhere: bool = False) -> Callable[[View], View]:
        def register(view: View) -> View:
            form = get_type_hints(view)["query"] if "query" in view.__annotations__ else None

            @wraps(view)
            def respond(**path: Any) -> Response:
                try:
                    with self.visited(_sender_of_form() if method == "POST" else visitor_of(request)) as visit:
                        if everywhere:
                            require_everywhere(visit.principal)
                        query = {} if form is None else {"query": read_query(_given(), form, others_ignored=True)}
                        return view(visit, **path, **query)
                except Problem as problem:
                    if method == "POST" or problem.kind is not Kind.NOT_AUTHENTICATED:
                        raise
                    return sign_in_page(status=200 if rule == "/" else problem.kind.status)

            self.add_url_rule(rule, view.__name__, respond, methods=[method], provide_automatic_options=False)
            return view

        return register

    @contextmanager
    def visited(self, visitor: Visitor) -> Iterator[Any]:
        """Lend the visit of the present request; raises Problem for a visitor without a right to it."""
        changes = request.method == "POST"
        visit = begin_visit(visitor, _given().get("branch"))
        if changes:
            require_change(visit.scope.principal)
        with tenant_thread(visit.scope.tenant):
            if changes:
                admit_command(visit.scope)
            yield visit


def _given() -> MultiDict[str, str]:
    return request.form if request.method == "POST" else request.args


def _sender_of_form() -> Visitor:
    """Return the sender of a form; raises Problem unless a page of ours sent it, drawn in this session."""
    require_same_origin(request)
    visitor = visitor_of(request)
    sent = request.form.get(FORM_TOKEN, "")
    if not hmac.compare_digest(sent.encode(), visitor.form_token.encode()):
        raise Problem(Kind.FOREIGN_SITE, "The form was not sent by a page of this session.")
    g.turno_may_be_sent_again = True
    return visitor


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
