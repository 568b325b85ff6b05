"""Routes: the signature and the docstring of a view are its documentation, and each view has an access rule."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from flask import Blueprint, Request, Response, g
from flask.globals import request_ctx

from turno.web.admission import (
    Scope,
    admit_command,
    require_change,
    require_everywhere,
    require_operator,
    scope_of,
    tenant_thread,
)
from turno.web.auth import SAFE, Principal, principal_of
from turno.web.requests import NO_PARAMETERS, Changes, NoQuery, correlation_id, read_body, read_changes, read_query
from turno.web.responses import Kind, answer

Access = Literal["user", "operator"]
View = TypeVar("View", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The meaning of a status; `body` is a dataclass, or a union of some; `headers` describes each header."""

    about: str
    body: Any = None
    media_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one address, as the OpenAPI document describes it; `query` and `body` are dataclasses."""

    method: str
    rule: str
    summary: str
    about: str
    answers: Mapping[int, Answer]
    query: type[Any]
    body: type[Any] | None
    access: Access | None
    # False for an operation on many tenants, without X-Schema.
    single_tenant: bool
    problems: tuple[Kind, ...] = ()
    request_headers: tuple[str, ...] = ()
    # Whether clients that cannot send X-Schema may name the tenant in the query.
    tenant_in_query: bool = False
    # Whether only an operator of every company may send it, because all companies share the object of the operation.
    everywhere: bool = False
    # Whether the role reader may send it although its method is one of changes.
    reads: bool = False
    # False for a view that counts the request against the limits of commands.
    counts: bool = True


@dataclass(frozen=True, slots=True)
class Call:
    """An admitted request within one tenant; each log line and job of it has the correlation id."""

    scope: Scope
    correlation_id: str


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """An admitted request of an operator about many tenants: the tenants of `principal.companies`, or all."""

    principal: Principal
    correlation_id: str


class Routes(Blueprint):
    """A blueprint of API operations; `tag` is their chapter in the OpenAPI document."""

    def __init__(self, name: str, import_name: str, *, tag: str, template_folder: str | None = None) -> None:
        super().__init__(name, import_name, template_folder=template_folder)
        self.tag = tag
        self.operations: dict[str, Operation] = {}

    def operation(
        self,
        address: str,
        *,
        answers: Mapping[int, Answer] | None = None,
        operator: bool = False,
        everybody: bool = False,
        scope: Callable[[Request], Scope] = scope_of,
        **rules: Any,
    ) -> Callable[[View], View]:
        """Register a view at an address such as `GET /api/jobs`; `rules` are further fields of its Operation.

        The parameter `call` sets the permitted users: a Call is for the users of a tenant, with `operator` for its
        operators, an OperatorCall for operators. A view has it unless it is for `everybody`, or TypeError is raised.
        The query string is read into a parameter `query`, and the body into `body`: a dataclass, or Changes of a
        dataclass. A view that looks for an id before it reads its body names the type of the body in `rules`. The
        variables of the path follow. A dataclass that the view returns is answered as JSON with the first status of
        `answers`, by default 200.
        """

        def register(view: View) -> View:
            hints = get_type_hints(view, include_extras=True)
            if ("call" in hints) is everybody:
                raise TypeError(f"{address}: a view has a parameter `call`, or is registered for everybody")
            operation = replace(_described(address, view, hints, answers), **rules)
            if operator:
                operation = replace(operation, access="operator")

            @wraps(view)
            def respond(**path: str) -> Response:
                current = request_ctx.request
                if operation.access is None:
                    return _respond(operation, view, hints, current, path)
                if not operation.single_tenant:
                    principal = principal_of(current)
                    call = OperatorCall(principal, _admit(operation, current, principal))
                    return _respond(operation, view, hints, current, {"call": call} | path)
                allowed = scope(current)
                with tenant_thread(allowed.tenant):
                    within = Call(allowed, _admit(operation, current, allowed.principal))
                    if operation.method not in SAFE and operation.counts:
                        admit_command(allowed)
                    return _respond(operation, view, hints, current, {"call": within} | path)

            self.operations[view.__name__] = operation
            methods = [operation.method]
            self.add_url_rule(operation.rule, view.__name__, respond, methods=methods, provide_automatic_options=False)
            return view

        return register


def _respond(
    operation: Operation, view: Callable[..., Any], hints: Mapping[str, Any], request: Request, given: dict[str, Any]
) -> Response:
    """Return the response of a view to a request; a body is read as its parameter `body` is annotated."""
    if operation.access or "query" in hints:
        query = read_query(request.args if request.query_string else NO_PARAMETERS, operation.query)
        given |= {"query": query} if "query" in hints else {}
    if body := hints.get("body"):
        changes = get_origin(body) is Changes
        given["body"] = read_changes(request, *get_args(body)) if changes else read_body(request, body)
    result, status = view(**given), next(iter(operation.answers))
    if isinstance(result, Response):
        return result
    return Response(status=status) if result is None else answer(result, status)


def _described(
    address: str, view: Callable[..., Any], hints: Mapping[str, Any], answers: Mapping[int, Answer] | None
) -> Operation:
    """Return the operation that a signature and a docstring describe."""
    method, _, rule = address.partition(" ")
    summary, _, more = inspect.cleandoc(view.__doc__ or "").partition("\n\n")
    returned, body, call = hints["return"], hints.get("body"), hints.get("call")
    if answers is None and returned is NoneType:
        answers = {204: Answer(about="It is done.")}
    elif answers is None:
        first, _, _ = (returned.__doc__ or "").partition("\n\n")
        answers = {200: Answer(about=" ".join(first.split()), body=returned)}
    return Operation(
        method=method,
        rule=rule,
        summary=summary.removesuffix("."),
        about=" ".join(more.split()),
        answers=answers,
        query=hints.get("query", NoQuery),
        body=get_args(body)[0] if get_origin(body) is Changes else body,
        access=None if call is None else "operator" if call is OperatorCall else "user",
        single_tenant=call is not OperatorCall,
    )


def _admit(operation: Operation, request: Request, principal: Principal) -> str:
    """Return the correlation id of the request; raises Problem 403 if the role does not permit the operation."""
    if operation.access == "operator":
        require_operator(principal)
    if operation.everywhere:
        require_everywhere(principal)
    if operation.method not in SAFE and not operation.reads:
        require_change(principal)
    named = g.turno_correlation_id = correlation_id(request)
    return named
