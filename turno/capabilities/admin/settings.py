"""/api/admin/tenants, /api/admin/types and their pages: settings by operators, and each tenant's share."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from flask import Response, request
from msgspec import Meta

from turno.capability import backends
from turno.errors import InvalidPayload
from turno.jobs.converter import converter
from turno.store.operator import counts, routing
from turno.store.operator.counts import Operator
from turno.store.operator.run_time_settings import set_tenant, set_type, types_with_code
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

admin_settings = Routes("admin_settings", __name__, tag="administration")
setting_pages = OperatorPages("operator_settings", __name__)

SHOWN = 50  # tenants of a page
LONGEST_NUMBER = 9  # digits
LONGEST_TIMEOUT = 604_800  # seconds
TERMS = ("timeout", "max_attempts", "retention_days")


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
    queue: str | None
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
    queue: Annotated[str, Meta(min_length=1, max_length=63)] | None = None
    alert_failure_percent: AlertPercent = None
    alert_wait_minutes: AlertMinutes = None


# Settings that change a tenant's share of the workers of all companies.
SHARED_SETTINGS = frozenset({"weight", "cap", "jobs_per_day", "backend", "queue"})


@admin_settings.operation("GET /api/admin/tenants")
def tenants(call: OperatorCall, query: KeyPageQuery) -> TenantPage:
    """List tenants."""
    with as_operator() as operator:
        rows = counts.tenants(operator, call.principal.companies, after=query.cursor, limit=query.limit + 1)
    return TenantPage(*page_of(rows, query.limit, partial(from_row, TenantBody), "tenant"))


@admin_settings.operation("PATCH /api/admin/tenants/<tenant>", problems=(Kind.UNKNOWN_TENANT,))
def change_tenant(call: OperatorCall, body: Changes[TenantChanges], tenant: str) -> TenantBody:
    """Change a tenant's settings.

    At once; the audit has the operator. Waiting jobs follow a change of backend.
    """
    with as_operator() as operator:
        _set(operator, call.principal, tenant, body)
        return from_row(TenantBody, _tenant(operator, call.principal, tenant))


@setting_pages.page("/admin/tenants")
def list_tenants(visit: OperatorVisit, query: TenantListQuery) -> Response:
    """List tenants."""
    begins = searchable(query.q)
    with as_operator() as operator:
        rows = counts.tenants(
            operator, visit.companies, begins=begins, show=query.show, after=query.after, limit=SHOWN + 1
        )
    shown, after = page_of(rows, SHOWN, dict, "tenant")
    return draw("turno/admin/tenants.html", visit=visit, query=query, tenants=shown, after=after)


@setting_pages.page("/admin/tenants/<slug>")
def show_tenant(visit: OperatorVisit, slug: str) -> Response:
    """Show one tenant, with its settings."""
    with as_operator() as operator:
        tenant = _tenant(operator, visit.principal, slug)
        types = counts.lanes(operator, visit.companies, tenant=slug)
    notice = request.args.get("notice")
    return draw("turno/admin/tenant.html", visit=visit, tenant=tenant, types=types, notice=notice, backends=backends())


@setting_pages.form("/admin/tenants/<slug>")
def change_tenant_by_form(visit: OperatorVisit, slug: str) -> Response:
    """Change the settings of one tenant; the audit has the change and the visitor."""
    changes = _changes_in(request.form, TenantChanges)
    if changes is not None:
        with as_operator() as operator:
            _set(operator, visit.principal, slug, changes)
    return go(visit.to(f"/tenants/{slug}", notice="wrong" if changes is None else "set"))


def _set(operator: Operator, principal: Principal, slug: str, changes: Mapping[str, object]) -> None:
    """Change the settings of a tenant; raises Problem 403 for a share of all tenants, by an operator of some."""
    _tenant(operator, principal, slug)
    if not principal.everywhere and (shared := SHARED_SETTINGS & changes.keys()):
        names = ", ".join(sorted(shared))
        raise Problem(Kind.OPERATORS_ONLY, f"{names}: only an operator of all companies may change it.")
    set_tenant(operator, slug, changes, by=principal.user, companies=principal.companies)
    if "backend" in changes:
        routing.reroute(operator, services().settings.queue_backend)


def _tenant(operator: Operator, principal: Principal, slug: str) -> dict[str, Any]:
    tenant = None if "\0" in slug else counts.tenant(operator, principal.companies, slug)
    if tenant is None:
        raise Problem(Kind.UNKNOWN_TENANT, "There is no such tenant among the tenants that this token operates.")
    return tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeTerms:
    """The time limit of an attempt, the number of attempts, and the days until ended jobs are purged."""

    timeout: float | None
    max_attempts: int | None
    retention_days: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeBody:
    """One job type: `set` by operators, else the values of its `code`.

    `jobs_per_day` is the limit of submissions of each tenant. Alert terms that are null come from the tenant or the
    installation.
    """

    type: str
    paused_at: datetime | None
    cap: int | None
    jobs_per_day: int | None
    alert_failure_percent: float | None
    alert_wait_minutes: int | None
    set: TypeTerms
    code: TypeTerms


@dataclass(frozen=True, slots=True)
class TypeList:
    """Every job type that this service knows, or that operators have set something of."""

    types: list[TypeBody]


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeChanges:
    """The changed settings, for all tenants; null returns to the value of the code."""

    paused: bool = False
    cap: Annotated[int, Meta(ge=1, le=32767)] | None = None
    jobs_per_day: JobsPerDay = None
    timeout: Annotated[float, Meta(gt=0, le=LONGEST_TIMEOUT)] | None = None
    max_attempts: Annotated[int, Meta(ge=1, le=1000)] | None = None
    retention_days: Annotated[int, Meta(ge=1, le=3650)] | None = None
    alert_failure_percent: AlertPercent = None
    alert_wait_minutes: AlertMinutes = None


@admin_settings.operation("GET /api/admin/types")
def types(call: OperatorCall) -> TypeList:
    """List job types."""
    del call
    return TypeList(_all())


@admin_settings.operation("PATCH /api/admin/types/<name>", everywhere=True, problems=(Kind.NOT_FOUND,))
def change_type(call: OperatorCall, body: Changes[TypeChanges], name: str) -> TypeBody:
    """Change a job type's settings.

    For all tenants; the audit has the operator. A worker takes a new time limit over with its next heartbeat;
    everything else counts at once.
    """
    _type(name)
    with as_operator() as operator:
        set_type(operator, name, body, by=call.principal.user)
    return _type(name)


@setting_pages.page("/admin/types")
def list_types(visit: OperatorVisit) -> Response:
    """List the job types."""
    return draw("turno/admin/types.html", visit=visit, types=_all(), terms=TERMS)


@setting_pages.page("/admin/types/<name>")
def show_type(visit: OperatorVisit, name: str) -> Response:
    """Show one type, with its settings for all tenants."""
    notice = request.args.get("notice")
    return draw("turno/admin/type.html", visit=visit, type=_type(name), terms=TERMS, notice=notice, live=False)


@setting_pages.form("/admin/types/<name>", everywhere=True)
def change_type_by_form(visit: OperatorVisit, name: str) -> Response:
    """Change the settings of one type; the audit has the change and the visitor."""
    _type(name)
    changes = _changes_in(request.form, TypeChanges)
    if changes is not None:
        with as_operator() as operator:
            set_type(operator, name, changes, by=visit.principal.user)
    return go(visit.to(f"/types/{name}", notice="wrong" if changes is None else "set"))


def _type(name: str) -> TypeBody:
    for setting in _all():
        if setting.type == name:
            return setting
    raise Problem(Kind.NOT_FOUND, "There is no job type of this name here.")


def _all() -> list[TypeBody]:
    with as_operator() as operator:
        rows = types_with_code(operator, services().registry.handlers, services().settings.retention_days)
    return [from_row(TypeBody, row, set=TypeTerms(**row["set"]), code=TypeTerms(**row["code"])) for row in rows]


def _changes_in(form: Mapping[str, str], kind: type[Any]) -> dict[str, Any] | None:
    """Return the settings of a form, checked as the API checks them; None for a value that no setting has.

    The settings are the fields of `kind`; an empty field removes a value.
    """
    given = {field.name: _value(form[field.name].strip()) for field in fields(kind) if field.name in form}
    try:
        checked = converter(kind).convert(given)
    except InvalidPayload:
        return None
    return {name: getattr(checked, name) for name in given} or None


def _value(text: str) -> Any:
    if text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER:
        return int(text)
    return {"": None, "yes": True, "no": False}.get(text, text)
