"""/api/admin/types and /admin/types: the settings of each job type by operators, and the values of its code."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from flask import Response, request
from msgspec import Meta

from turno.capabilities.admin.setting_form import changes_in
from turno.capabilities.admin.tenants import AlertMinutes, AlertPercent, JobsPerDay
from turno.store.operator.run_time_settings import set_type, types_with_code
from turno.web.pages.drawing import draw, go
from turno.web.pages.page_routes import OperatorPages, OperatorVisit
from turno.web.requests import Changes
from turno.web.responses import Kind, Problem, from_row
from turno.web.routes import OperatorCall, Routes
from turno.web.services import as_operator, services

admin_types = Routes("admin_types", __name__, tag="administration")
type_list = OperatorPages("operator_types", __name__)

TERMS = ("timeout", "max_attempts", "retention_days")
LONGEST_TIMEOUT = 604_800  # seconds


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


@admin_types.operation("GET /api/admin/types")
def types(call: OperatorCall) -> TypeList:
    """List job types."""
    del call
    return TypeList(_all())


@admin_types.operation("PATCH /api/admin/types/<name>", everywhere=True, problems=(Kind.NOT_FOUND,))
def change_type(call: OperatorCall, body: Changes[TypeChanges], name: str) -> TypeBody:
    """Change a job type's settings.

    For all tenants; the audit has the operator. A worker takes a new time limit over with its next heartbeat;
    everything else counts at once.
    """
    _found(name)
    with as_operator() as operator:
        set_type(operator, name, body, by=call.principal.user)
    return _found(name)


@type_list.page("/admin/types")
def index(visit: OperatorVisit) -> Response:
    """List the job types."""
    return draw("turno/admin/types.html", visit=visit, types=_all(), terms=TERMS)


@type_list.page("/admin/types/<name>")
def show(visit: OperatorVisit, name: str) -> Response:
    """Show one type, with its settings for all tenants."""
    notice = request.args.get("notice")
    return draw("turno/admin/type.html", visit=visit, type=_found(name), terms=TERMS, notice=notice, live=False)


@type_list.form("/admin/types/<name>", everywhere=True)
def change(visit: OperatorVisit, name: str) -> Response:
    """Change the settings of one type; the audit has the change and the visitor."""
    _found(name)
    changes = changes_in(request.form, TypeChanges)
    if changes is not None:
        with as_operator() as operator:
            set_type(operator, name, changes, by=visit.principal.user)
    return go(visit.to(f"/types/{name}", notice="wrong" if changes is None else "set"))


def _found(name: str) -> TypeBody:
    for found in _all():
        if found.type == name:
            return found
    raise Problem(Kind.NOT_FOUND, "There is no job type of this name here.")


def _all() -> list[TypeBody]:
    with as_operator() as operator:
        rows = types_with_code(operator, services().registry.handlers, services().settings.retention_days)
    return [from_row(TypeBody, row, set=TypeTerms(**row["set"]), code=TypeTerms(**row["code"])) for row in rows]
