"""Routes that cannot be added without saying who may use them and what they answer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Literal

from flask import Blueprint, Request, Response, g, request

from turno.web.auth.csrf import SAFE
from turno.web.auth.login import principal_of
from turno.web.auth.principal import Principal
from turno.web.auth.tenant_scope import Scope, require_change, require_operator, scope_of
from turno.web.http.problems import Kind, Problem
from turno.web.http.query import NoQuery, read_query
from turno.web.http.request_headers import correlation_id
from turno.web.rate_limits import admit_command
from turno.web.tenant_share import place_of

Access = Literal["user", "operator"]
View = Callable[..., Response]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one status means; `body` is a dataclass, or a union of some; `headers` says what each header tells."""

    about: str
    body: Any = None
    media_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one address, as the OpenAPI document tells it; `query` and `body` are dataclasses."""

    method: str
    rule: str
    summary: str
    answers: Mapping[int, Answer]
    about: str = ""
    query: type[Any] = NoQuery
    request_headers: tuple[str, ...] = ()
    problems: tuple[Kind, ...] = ()
    access: Access | None = "user"
    body: type[Any] | None = None
    # Whether the body is bytes as they are, application/octet-stream.
    takes_bytes: bool = False
    # Whether the tenant may be named there, by clients that cannot send X-Schema.
    tenant_in_query: bool = False
    # Whether it is about one tenant, which X-Schema names; what is about many is registered by `Routes.across`.
    one_tenant: bool = True
    # Whether it needs an operator of every company, because all of them share what it changes or shows.
    everywhere: bool = False
    # Whether the role reader may ask for it although its method is one that changes things.
    reads: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """An admitted request: its scope, its query parameters and the id that follows it everywhere."""

    scope: Scope
    query: Any
    correlation_id: str


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """An admitted request of an operator about many tenants: those of `principal`'s companies, or all."""

    principal: Principal
    query: Any
    correlation_id: str


class Routes(Blueprint):
    """A blueprint whose views get a `Call`, made after the request was admitted; `tag` is its chapter."""

    def __init__(self, name: str, import_name: str, *, tag: str) -> None:
        super().__init__(name, import_name)
        self.tag = tag
        self.operations: dict[str, Operation] = {}

    def open(self, operation: Operation) -> Callable[[View], View]:
        """Register a view that anybody may ask; it gets the path's variables alone."""

        def register(view: View) -> View:
            self._register(operation, view.__name__, view)
            return view

        return register

    def guarded(self, operation: Operation, *, scope: Callable[[Request], Scope] = scope_of) -> Callable[[View], View]:
        """Register a view that gets a Call first, and only for who may use it; `scope` finds out who asks."""

        def register(view: View) -> View:
            @wraps(view)
            def admitted(**path: str) -> Response:
                found = scope(request)
                with place_of(found.tenant):
                    return view(_admit(operation, found), **path)

            self._register(operation, view.__name__, admitted)
            return view

        return register

    def across(self, operation: Operation) -> Callable[[View], View]:
        """Register a view that gets an OperatorCall first; it is told apart from others by `one_tenant=False`."""

        def register(view: View) -> View:
            @wraps(view)
            def admitted(**path: str) -> Response:
                return view(_admit_across(operation), **path)

            self._register(operation, view.__name__, admitted)
            return view

        return register

    def _register(self, operation: Operation, endpoint: str, view: View) -> None:
        self.operations[endpoint] = operation
        self.add_url_rule(operation.rule, endpoint, view, methods=[operation.method], provide_automatic_options=False)


def _admit(operation: Operation, scope: Scope) -> Call:
    _require_role(operation, scope.principal)
    g.turno_correlation_id = correlation_id(request.headers)
    if operation.method not in SAFE:
        admit_command(scope)
    return Call(scope, read_query(request.args, operation.query), g.turno_correlation_id)


def _admit_across(operation: Operation) -> OperatorCall:
    principal = principal_of(request)
    _require_role(operation, principal)
    g.turno_correlation_id = correlation_id(request.headers)
    return OperatorCall(principal, read_query(request.args, operation.query), g.turno_correlation_id)


def _require_role(operation: Operation, principal: Principal) -> None:
    if operation.access == "operator":
        require_operator(principal)
    if operation.everywhere and not principal.everywhere:
        raise Problem(Kind.OPERATORS_ONLY, "All companies share this: it takes an operator of every company.")
    if operation.method not in SAFE and not operation.reads:
        require_change(principal)
