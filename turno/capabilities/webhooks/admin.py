"""/api/admin/webhooks and /admin/webhooks: the addresses of operators, and the failed deliveries."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated
from uuid import UUID

from flask import Response, request
from msgspec import Meta

from turno.capabilities.webhooks import stored
from turno.capabilities.webhooks.url import url_problem
from turno.web.admission import require_everywhere
from turno.web.auth import Principal
from turno.web.pages.drawing import draw, go
from turno.web.pages.page_routes import OperatorPages, OperatorVisit
from turno.web.requests import LARGEST_ID, PageSize, Text, described
from turno.web.responses import FieldProblem, Kind, Problem, from_row, invalid, page_of
from turno.web.routes import Answer, OperatorCall, Routes
from turno.web.services import as_operator, services

admin_webhooks = Routes("admin_webhooks", __name__, tag="administration")
webhook_list = OperatorPages("operator_webhooks", __name__, template_folder="templates")

LONGEST_LIST = 50  # a page
LARGEST_ADDRESS = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressBody:
    """An address, without its path, which may be secret, for the ends of one tenant, of one type, or of all jobs.

    `failing` is the number of its failed deliveries.
    """

    id: int
    tenant: str | None
    type: str | None
    url: str
    created_at: datetime
    failing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingBody:
    """A failed delivery; without `next_at` no further try is made.

    `address_id` is null if the submission named the URL, or requested a mail.
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
class WebhookPage:
    """All addresses, and a page of failed deliveries, the oldest first."""

    addresses: list[AddressBody]
    failing: list[FailingBody]
    next_cursor: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingQuery:
    """The tenant and the page."""

    tenant: Annotated[Text, described("Of this tenant alone.")] = ""
    cursor: Annotated[int, described("The next_cursor of the previous page.", ge=0, le=LARGEST_ID)] = 0
    limit: PageSize = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookListQuery:
    """The tenant, the delivery before the page, and the notice of the last form."""

    tenant: Text = ""
    after: Annotated[int, described("Behind this one.", ge=0, le=LARGEST_ID)] = 0
    notice: Text = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAddress:
    """A new address, for the jobs of a tenant, of a type, or of all."""

    url: str
    tenant: str | None = None
    type: str | None = None


@dataclass(frozen=True, slots=True)
class AddressMade:
    """The number of the address, for its removal and its secret."""

    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """Failed deliveries by id, or all of a tenant; null for both means all."""

    ids: Annotated[list[Annotated[int, Meta(ge=1, le=LARGEST_ID)]], Meta(max_length=LONGEST_LIST)] | None = None
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class WebhooksSettled:
    """The number of deliveries."""

    webhooks: int


@admin_webhooks.operation("GET /api/admin/webhooks")
def index(call: OperatorCall, query: FailingQuery) -> WebhookPage:
    """List the addresses and the failed deliveries."""
    return _page(call.principal.companies, query)


@admin_webhooks.operation(
    "POST /api/admin/webhooks", answers={201: Answer(about="The address is stored.", body=AddressMade)}, everywhere=True
)
def add(call: OperatorCall, body: NewAddress) -> AddressMade:
    """Add an address for the ends of jobs.

    For later ends of a tenant's jobs, of a type's, or of all; `TURNO_WEBHOOK_HOSTS` must name its host. Safe to repeat.
    `turno webhook secret` prints the key of its signatures.
    """
    return AddressMade(_add_address(call.principal.user, body))


@admin_webhooks.operation("DELETE /api/admin/webhooks/<address>", everywhere=True, problems=(Kind.NOT_FOUND,))
def remove(call: OperatorCall, address: str) -> None:
    """Remove an address.

    Its undelivered ends are discarded.
    """
    _remove_address(call.principal.user, address)


@admin_webhooks.operation("POST /api/admin/webhooks/resend")
def resend(call: OperatorCall, body: Which) -> WebhooksSettled:
    """Resend failed deliveries.

    Webhooks and mails, at once and from the first try on.
    """
    return _settled(call.principal, body, again=True)


@admin_webhooks.operation("POST /api/admin/webhooks/discard")
def discard(call: OperatorCall, body: Which) -> WebhooksSettled:
    """Discard failed deliveries."""
    return _settled(call.principal, body, again=False)


@webhook_list.page("/admin/webhooks")
def listed(visit: OperatorVisit, query: WebhookListQuery) -> Response:
    """List the addresses and the failed deliveries."""
    page = _page(visit.companies, FailingQuery(tenant=query.tenant, cursor=query.after))
    types = sorted(handler.type for handler in services().registry.handlers)
    return draw("turno/admin/webhooks.html", visit=visit, query=query, page=page, types=types, live=False)


@webhook_list.form("/admin/webhooks")
def change(visit: OperatorVisit) -> Response:
    """Add or remove an address, resend or discard failed deliveries."""
    form = {name: text.strip().replace("\0", "") for name, text in request.form.items()}
    done, number, tenant = form.get("do"), form.get("id", ""), form.get("tenant") or None
    if done in ("resend", "discard"):
        which = Which(ids=[_number(number, invalid([]), LARGEST_ID)] if number else None, tenant=tenant)
        _settled(visit.principal, which, again=done == "resend")
        return go(visit.to("/webhooks", tenant=tenant, notice="asked"))
    if done not in ("add", "remove"):
        raise invalid([])
    require_everywhere(visit.principal)
    try:
        if done == "add":
            address = NewAddress(url=form.get("url", ""), type=form.get("type") or None, tenant=tenant)
            _add_address(visit.principal.user, address)
        else:
            _remove_address(visit.principal.user, form.get("address", ""))
    except Problem as problem:
        if problem.kind not in (Kind.INVALID_REQUEST, Kind.NOT_FOUND):
            raise
        return go(visit.to("/webhooks", notice="wrong"))
    return go(visit.to("/webhooks", notice="set"))


def _page(companies: Collection[str] | None, query: FailingQuery) -> WebhookPage:
    tenant, limit = query.tenant or None, query.limit
    with as_operator() as operator:
        addresses = stored.list_addresses(operator, companies=companies)
        rows = stored.failing(operator, companies=companies, tenant=tenant, after=query.cursor, limit=limit + 1)
    page, following = page_of(rows, limit, partial(from_row, FailingBody), "id")
    return WebhookPage([from_row(AddressBody, row) for row in addresses], page, following)


def _settled(principal: Principal, which: Which, *, again: bool) -> WebhooksSettled:
    with as_operator() as operator:
        settled = stored.settle(
            operator, again=again, by=principal.user, tenant=which.tenant, ids=which.ids, companies=principal.companies
        )
    return WebhooksSettled(settled)


def _add_address(by: str, wanted: NewAddress) -> int:
    """Store an address and return its number; raises Problem 400 for a field that is not allowed."""
    settings = services().settings
    problems = []
    if wrong := url_problem(wanted.url, settings.webhook_hosts):
        problems.append(FieldProblem("url", wrong))
    if wanted.type is not None and wanted.type not in {handler.type for handler in services().registry.handlers}:
        problems.append(FieldProblem("type", "is unknown to this service; /openapi.json lists the types"))
    if problems:
        raise invalid(problems)
    with as_operator() as operator:
        made = stored.add_address(operator, wanted.url, tenant=wanted.tenant, job_type=wanted.type, by=by)
    if made is None:
        raise invalid([FieldProblem("tenant", "is no tenant of this installation")])
    return made


def _remove_address(by: str, address: str) -> None:
    """Remove an address; raises Problem 404 for an unknown number."""
    gone = Problem(Kind.NOT_FOUND, "There is no such address any more.")
    number = _number(address, gone, LARGEST_ADDRESS)
    with as_operator() as operator:
        if not stored.remove_address(operator, number, by=by):
            raise gone


def _number(text: str, otherwise: Problem, largest: int) -> int:
    if text.isascii() and text.isdigit() and len(text) <= len(str(largest)) and int(text) <= largest:
        return int(text)
    raise otherwise
