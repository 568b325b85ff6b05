"""/api/admin/callbacks: addresses that are told of every end, and what nobody took."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated
from uuid import UUID

from flask import Response
from msgspec import Meta

from turno.jobs.callback_url import url_problem
from turno.store.operator import callbacks
from turno.web.http.json_answers import answer, from_row, page_of
from turno.web.http.problems import FieldProblem, Kind, Problem, invalid
from turno.web.http.query import LARGEST_ID, PageSize, Text, described
from turno.web.routes import Answer, OperatorCall, Routes
from turno.web.services import lend_operator, services

admin_callbacks = Routes("admin_callbacks", __name__, tag="administration")

LONGEST_LIST = 50  # a page
LARGEST_ADDRESS = 2**31 - 1
MAX_DIGITS = len(str(LARGEST_ADDRESS))


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressBody:
    """One address, without its path, which may be secret; told of one tenant's ends, of one type's, or of all.

    `failing` is how many ends it did not take.
    """

    id: int
    tenant: str | None
    type: str | None
    url: str
    created_at: datetime
    failing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingBody:
    """One end that an address did not take; without `next_at` it is tried no more.

    `address_id` is null where the submission named the address, or asked for a mail.
    """

    id: int
    tenant: str
    job_id: UUID
    url: str
    address_id: int | None
    attempts: int
    error: str
    next_at: datetime | None


@dataclass(frozen=True, slots=True)
class CallbackPage:
    """All addresses, and a page of what was not taken, the oldest first."""

    addresses: list[AddressBody]
    failing: list[FailingBody]
    next_cursor: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingQuery:
    """Of which tenant, and which page."""

    tenant: Annotated[Text, described("Of this tenant alone.")] = ""
    cursor: Annotated[int, described("What the page before named as next_cursor.", ge=0, le=LARGEST_ID)] = 0
    limit: PageSize = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAddress:
    """An address, and of which tenant and type it is told; of all without them."""

    url: str
    tenant: str | None = None
    type: str | None = None


@dataclass(frozen=True, slots=True)
class AddressMade:
    """Its number, by which it is removed and its secret is printed."""

    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """What was not taken: these ones, or all of a tenant's; null for both means all."""

    ids: Annotated[list[Annotated[int, Meta(ge=1, le=LARGEST_ID)]], Meta(max_length=LONGEST_LIST)] | None = None
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """How many it were."""

    callbacks: int


@admin_callbacks.operation("GET /api/admin/callbacks")
def index(call: OperatorCall, query: FailingQuery) -> CallbackPage:
    """List addresses that are told of jobs' ends, and what was not taken."""
    companies = call.principal.companies
    with lend_operator()() as operator:
        addresses = callbacks.list_addresses(operator, companies=companies)
        rows = callbacks.failing(
            operator, companies=companies, tenant=query.tenant or None, after=query.cursor, limit=query.limit + 1
        )
    page, following = page_of(rows, query.limit, lambda row: from_row(FailingBody, row), "id")
    return CallbackPage([from_row(AddressBody, row) for row in addresses], page, following)


@admin_callbacks.operation(
    "POST /api/admin/callbacks", answers={201: Answer(about="It is told.", body=AddressMade)}, everywhere=True
)
def add(call: OperatorCall, body: NewAddress) -> Response:
    """Have an address told of every end.

    From now on, of a tenant's jobs, of a type's, or of all; `CALLBACK_HOSTS` must name its host. Safe to repeat.
    `turno callbacks secret` prints what it is signed with.
    """
    return answer(AddressMade(add_address(call.principal.user, body)), 201)


@admin_callbacks.operation("DELETE /api/admin/callbacks/<address>", everywhere=True, problems=(Kind.NOT_FOUND,))
def remove(call: OperatorCall, address: str) -> None:
    """Tell an address no more.

    Not even of what it has not taken yet.
    """
    remove_address(call.principal.user, address)


@admin_callbacks.operation("POST /api/admin/callbacks/resend")
def resend(call: OperatorCall, body: Which) -> Settled:
    """Try again what was not taken.

    At once, and from the first try on; call-backs and mails alike.
    """
    return _settled(call, body, again=True)


@admin_callbacks.operation("POST /api/admin/callbacks/discard")
def discard(call: OperatorCall, body: Which) -> Settled:
    """Try no more what was not taken."""
    return _settled(call, body, again=False)


def _settled(call: OperatorCall, which: Which, *, again: bool) -> Settled:
    if which.tenant is not None and "\0" in which.tenant:
        raise invalid([FieldProblem("tenant", "must not contain the character U+0000")])
    with lend_operator()() as operator:
        settled = callbacks.settle(
            operator,
            again=again,
            by=call.principal.user,
            tenant=which.tenant,
            ids=which.ids,
            companies=call.principal.companies,
        )
    return Settled(settled)


def add_address(by: str, wanted: NewAddress) -> int:
    """Have an address told and return its number; raises Problem 400 for what cannot be."""
    settings = services().settings
    problems = []
    if wrong := url_problem(wanted.url, settings.callback_hosts, private=settings.callback_private):
        problems.append(FieldProblem("url", wrong))
    known = {handler.type for handler in services().registry.handlers}
    if wanted.type is not None and wanted.type not in known:
        problems.append(FieldProblem("type", "is none of this service's; /openapi.json lists the types"))
    if wanted.tenant is not None and "\0" in wanted.tenant:
        problems.append(FieldProblem("tenant", "must not contain the character U+0000"))
    if problems:
        raise invalid(problems)
    with lend_operator()() as operator:
        made = callbacks.add_address(operator, wanted.url, tenant=wanted.tenant, job_type=wanted.type, by=by)
    if made is None:
        raise invalid([FieldProblem("tenant", "is none of this installation's")])
    return made


def remove_address(by: str, address: str) -> None:
    """Tell an address no more; raises Problem 404 if there is none of this number."""
    gone = Problem(Kind.NOT_FOUND, "There is no such address any more.")
    if not (address.isascii() and address.isdigit() and len(address) <= MAX_DIGITS and int(address) <= LARGEST_ADDRESS):
        raise gone
    with lend_operator()() as operator:
        if not callbacks.remove_address(operator, int(address), by=by):
            raise gone
