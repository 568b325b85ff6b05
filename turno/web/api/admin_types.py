"""/api/admin/types: what operators set of each job type, beside what its code says."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from msgspec import Meta

from turno.errors import UnknownJobType
from turno.store.operator.run_time_settings import list_types, set_type
from turno.web.api.admin_tenants import AlertMinutes, AlertPercent, JobsPerDay
from turno.web.http.problems import Kind, Problem
from turno.web.http.request_body import Changes
from turno.web.routes import OperatorCall, Routes
from turno.web.services import lend_operator, services

admin_types = Routes("admin_types", __name__, tag="administration")

LONGEST_TIMEOUT = 604_800  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeTerms:
    """How long an attempt may take, how many may end in an error, and how many days ended jobs are kept."""

    timeout: float | None
    max_attempts: int | None
    retention_days: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeBody:
    """One job type: `set` by operators, and `code`, which counts where nothing is set.

    `jobs_per_day` is how many of it each tenant may submit; alerts are as its tenant or the installation has them where
    the type says nothing.
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
    """What is named is changed, for all tenants; null leaves it to the code again."""

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
    return TypeList(all_types())


@admin_types.operation("PATCH /api/admin/types/<name>", everywhere=True, problems=(Kind.NOT_FOUND,))
def change_type(call: OperatorCall, body: Changes[TypeChanges], name: str) -> TypeBody:
    """Change a job type's settings.

    For all tenants, and on record with who did it. A worker takes a new time limit over with its next heartbeat;
    everything else counts at once.
    """
    if not any(one.type == name for one in all_types()):
        raise Problem(Kind.NOT_FOUND, "There is no job type of this name here.")
    with lend_operator()() as operator:
        set_type(operator, name, body, by=call.principal.user)
    return next(one for one in all_types() if one.type == name)


def all_types() -> list[TypeBody]:
    """Return every job type that this service knows, or that operators have set something of, by name."""
    with lend_operator()() as operator:
        stored = {row["type"]: row for row in list_types(operator)}
    known = {handler.type for handler in services().registry.handlers}
    return [_body(name, stored.get(name, {})) for name in sorted(known | stored.keys())]


def _body(name: str, row: dict[str, object]) -> TypeBody:
    terms = {field: row.get(field) for field in ("timeout", "max_attempts", "retention_days")}
    return TypeBody(
        type=name,
        paused_at=row.get("paused_at"),  # type: ignore[arg-type]  # as the column is
        cap=row.get("cap"),  # type: ignore[arg-type]
        jobs_per_day=row.get("jobs_per_day"),  # type: ignore[arg-type]
        alert_failure_percent=row.get("alert_failure_percent"),  # type: ignore[arg-type]
        alert_wait_minutes=row.get("alert_wait_minutes"),  # type: ignore[arg-type]
        set=TypeTerms(**terms),  # type: ignore[arg-type]
        code=_of_code(name),
    )


def _of_code(name: str) -> TypeTerms:
    days = services().settings.retention_days
    try:
        handler = services().registry.handler(name)
    except UnknownJobType:
        return TypeTerms(timeout=None, max_attempts=None, retention_days=days)
    return TypeTerms(timeout=handler.timeout, max_attempts=handler.retry.max_attempts, retention_days=days)
