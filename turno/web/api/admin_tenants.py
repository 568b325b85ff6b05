"""/api/admin/tenants: each tenant's share, weight, caps, pause and backend."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta

from turno.settings import Backend
from turno.store.operator import routing
from turno.store.operator.run_time_settings import list_tenants, set_tenant, show_tenant
from turno.web.auth.principal import Principal
from turno.web.http.json_answers import from_row, page_of
from turno.web.http.problems import Kind, Problem
from turno.web.http.query import AFTER, PageSize, Text, described
from turno.web.http.request_body import Changes
from turno.web.routes import OperatorCall, Routes
from turno.web.services import lend_operator, services

JobsPerDay = Annotated[int, Meta(ge=1, le=100_000_000)] | None
AlertPercent = Annotated[float, Meta(ge=0, le=100)] | None
AlertMinutes = Annotated[int, Meta(ge=1, le=10_080)] | None

admin_tenants = Routes("admin_tenants", __name__, tag="administration")


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantBody:
    """One tenant: what operators set, and over the last 15 minutes its waits, and its share beside its fair one.

    Without `cap` it may have any number of jobs running, without `jobs_per_day` as many a day as everybody, without
    `backend` the one that is set for all, and without terms of its own alerts by those of the type or the installation.
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
class TenantsQuery:
    """Which tenants."""

    cursor: Annotated[Text, described(AFTER)] = ""
    limit: PageSize = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantChanges:
    """What is named is changed; null takes a value away."""

    paused: bool = False
    weight: Annotated[int, Meta(ge=1, le=100)] = 1
    cap: Annotated[int, Meta(ge=1, le=32767)] | None = None
    jobs_per_day: JobsPerDay = None
    backend: Backend | None = None
    alert_failure_percent: AlertPercent = None
    alert_wait_minutes: AlertMinutes = None


# What a tenant takes of the workers that all companies share.
SHARED_SETTINGS = frozenset({"weight", "cap", "jobs_per_day", "backend"})


@admin_tenants.operation("GET /api/admin/tenants")
def tenants(call: OperatorCall, query: TenantsQuery) -> TenantPage:
    """List tenants."""
    limit = query.limit
    with lend_operator()() as operator:
        rows = list_tenants(operator, companies=call.principal.companies, after=query.cursor, limit=limit + 1)
    return TenantPage(*page_of(rows, limit, lambda row: from_row(TenantBody, row), "tenant"))


@admin_tenants.operation("PATCH /api/admin/tenants/<tenant>", problems=(Kind.UNKNOWN_TENANT,))
def change_tenant(call: OperatorCall, body: Changes[TenantChanges], tenant: str) -> TenantBody:
    """Change a tenant's settings.

    At once, and on record with who did it. Waiting jobs follow a change of backend.
    """
    require_own_settings(call.principal, body)
    companies = call.principal.companies
    with lend_operator()() as operator:
        changed = "\0" not in tenant and set_tenant(operator, tenant, body, by=call.principal.user, companies=companies)
        if changed and "backend" in body:
            routing.reroute(operator, backend_defaults())
        row: dict[str, Any] | None = show_tenant(operator, tenant, companies=companies) if changed else None
    if row is None:
        raise Problem(Kind.UNKNOWN_TENANT, "There is no such tenant among those that this token operates.")
    return from_row(TenantBody, row)


def require_own_settings(principal: Principal, changes: Mapping[str, object]) -> None:
    """Raise Problem 403 if an operator of some companies changes a setting that decides the share of other tenants."""
    if not principal.everywhere and (shared := SHARED_SETTINGS & changes.keys()):
        names = ", ".join(sorted(shared))
        raise Problem(Kind.OPERATORS_ONLY, f"{names}: only an operator of all companies may change it.")


def backend_defaults() -> routing.Defaults:
    """Return what the environment says of backends."""
    settings = services().settings
    return routing.Defaults(settings.queue_backend, settings.queue_canary_backend, settings.queue_canary_percent)
