"""/api/admin/tenants and /admin/tenants: each tenant's share, weight, caps, pause and backend."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from flask import Response, request
from msgspec import Meta

from turno.capabilities.admin import board
from turno.capabilities.admin.setting_form import changes_in
from turno.capability import backends
from turno.store.operator import routing
from turno.store.operator.outcome_counts import Operator
from turno.store.operator.run_time_settings import set_tenant
from turno.web.auth import Principal
from turno.web.pages.drawing import draw, go
from turno.web.pages.page_routes import OperatorPages, OperatorVisit
from turno.web.requests import Changes, KeyPageQuery, Text, searchable
from turno.web.responses import Kind, Problem, from_row, page_of
from turno.web.routes import OperatorCall, Routes
from turno.web.services import as_operator, services

if TYPE_CHECKING:
    Backend = str
else:
    Backend = Literal[tuple(backends())]
JobsPerDay = Annotated[int, Meta(ge=1, le=100_000_000)] | None
AlertPercent = Annotated[float, Meta(ge=0, le=100)] | None
AlertMinutes = Annotated[int, Meta(ge=1, le=10_080)] | None

admin_tenants = Routes("admin_tenants", __name__, tag="administration")
tenant_list = OperatorPages("operator_tenants", __name__)

SHOWN = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantBody:
    """One tenant: its settings, and its waits, share and fair share of the last 15 minutes.

    A setting is null unless an operator set it: no limit of running jobs, the daily limit, backend and alert terms of
    the installation or of the job type.
    """

    tenant: str
    company: str
    paused_at: datetime | None
    weight: int
    cap: int | None
    jobs_per_day: int | None
    backend: Backend | None
    alert_failure_percent: float | None
    alert_wait_minutes: int | None
    waiting: int
    running: int
    oldest_wait: float | None
    ended: int
    wait_p50_ms: int | None
    wait_p95_ms: int | None
    share: float | None
    fair_share: float | None


@dataclass(frozen=True, slots=True)
class TenantPage:
    """Active tenants, in the order of their names."""

    tenants: list[TenantBody]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantListQuery:
    """The beginning of the names and the state of the listed tenants; a form also sends empty values."""

    q: str = ""
    show: Literal["", "waiting", "running", "paused"] = ""
    after: Text = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantChanges:
    """The changed settings; null removes a value."""

    paused: bool = False
    weight: Annotated[int, Meta(ge=1, le=100)] = 1
    cap: Annotated[int, Meta(ge=1, le=32767)] | None = None
    jobs_per_day: JobsPerDay = None
    backend: Backend | None = None
    alert_failure_percent: AlertPercent = None
    alert_wait_minutes: AlertMinutes = None


# Settings that change a tenant's share of the workers of all companies.
SHARED_SETTINGS = frozenset({"weight", "cap", "jobs_per_day", "backend"})


@admin_tenants.operation("GET /api/admin/tenants")
def tenants(call: OperatorCall, query: KeyPageQuery) -> TenantPage:
    """List tenants."""
    with as_operator() as operator:
        rows = board.tenants(operator, call.principal.companies, after=query.cursor, limit=query.limit + 1)
    return TenantPage(*page_of(rows, query.limit, partial(from_row, TenantBody), "tenant"))


@admin_tenants.operation("PATCH /api/admin/tenants/<tenant>", problems=(Kind.UNKNOWN_TENANT,))
def change_tenant(call: OperatorCall, body: Changes[TenantChanges], tenant: str) -> TenantBody:
    """Change a tenant's settings.

    At once; the audit has the operator. Waiting jobs follow a change of backend.
    """
    with as_operator() as operator:
        _set(operator, call.principal, tenant, body)
        return from_row(TenantBody, _found(operator, call.principal, tenant))


@tenant_list.page("/admin/tenants")
def index(visit: OperatorVisit, asked: TenantListQuery) -> Response:
    """List tenants."""
    begins = searchable(asked.q)
    with as_operator() as operator:
        found = board.tenants(
            operator, visit.companies, begins=begins, show=asked.show, after=asked.after, limit=SHOWN + 1
        )
    shown, after = page_of(found, SHOWN, dict, "tenant")
    return draw("turno/admin/tenants.html", visit=visit, asked=asked, tenants=shown, after=after)


@tenant_list.page("/admin/tenants/<slug>")
def show(visit: OperatorVisit, slug: str) -> Response:
    """Show one tenant, with its settings."""
    with as_operator() as operator:
        found = _found(operator, visit.principal, slug)
        types = board.lanes(operator, visit.companies, tenant=slug)
    notice = request.args.get("notice")
    return draw("turno/admin/tenant.html", visit=visit, tenant=found, types=types, notice=notice, backends=backends())


@tenant_list.form("/admin/tenants/<slug>")
def change(visit: OperatorVisit, slug: str) -> Response:
    """Change the settings of one tenant; the audit has the change and the visitor."""
    changes = changes_in(request.form, TenantChanges)
    if changes is not None:
        with as_operator() as operator:
            _set(operator, visit.principal, slug, changes)
    return go(visit.to(f"/tenants/{slug}", notice="wrong" if changes is None else "set"))


def _set(operator: Operator, principal: Principal, slug: str, changes: Mapping[str, object]) -> None:
    """Change the settings of a tenant; raises Problem 403 for a share of all tenants, by an operator of some."""
    _found(operator, principal, slug)
    if not principal.everywhere and (shared := SHARED_SETTINGS & changes.keys()):
        names = ", ".join(sorted(shared))
        raise Problem(Kind.OPERATORS_ONLY, f"{names}: only an operator of all companies may change it.")
    set_tenant(operator, slug, changes, by=principal.user, companies=principal.companies)
    if "backend" in changes:
        routing.reroute(operator, services().settings.queue_backend)


def _found(operator: Operator, principal: Principal, slug: str) -> dict[str, Any]:
    found = None if "\0" in slug else board.tenant(operator, principal.companies, slug)
    if found is None:
        raise Problem(Kind.UNKNOWN_TENANT, "There is no such tenant among the tenants that this token operates.")
    return found
