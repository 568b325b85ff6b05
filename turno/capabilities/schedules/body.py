"""A schedule as the API shows it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Literal
from urllib.parse import quote
from uuid import UUID

from turno.jobs.job import Priority
from turno.jobs.recurrence import InvalidRule
from turno.jobs.recurring_job import stored_rule
from turno.tenancy.identity.tenant import Tenant
from turno.web.api.recurring_job import SavedRecurringJob
from turno.web.responses import from_row
from turno.web.services import services

NEXT_SHOWN = 5


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last moment that has a job, the job, and its status."""

    moment: datetime
    job_id: UUID
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSummary(SavedRecurringJob):
    """One schedule. `problem` is the reason of a moment without a job."""

    schedule_id: UUID
    priority: Literal["urgent", "normal", "low"]
    user: str
    paused_at: datetime | None
    next_runs: list[datetime]
    last_run: LastRun | None
    problem: str | None
    missed_runs: int
    created_at: datetime
    links: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleBody(ScheduleSummary):
    """One schedule with its payload."""

    payload: dict[str, Any]


def schedule_body(
    kind: type[Any], row: Mapping[str, Any], tenant: Tenant, root: str, *, shown: int = NEXT_SHOWN
) -> Any:
    """Return a stored schedule as ScheduleSummary or ScheduleBody, with as many of its next moments."""
    problem, moments = row["problem"], []
    try:
        if row["paused_at"] is None:
            moments = list(islice(stored_rule(row, tenant.slug).after(row["now"]), shown))
    except InvalidRule as error:
        problem = f"cannot be read by this host: {error}"
    if row["type"] not in {handler.type for handler in services().registry.handlers}:
        problem = f"no handler has the type {row['type']}"
    here = f"{root}/api/schedules/{quote(row['name'], safe='')}"
    last = LastRun(row["last_at"], row["last_job_id"], row["last_status"]) if row["last_at"] else None
    return from_row(
        kind,
        row,
        schedule_id=row["id"],
        priority=Priority(row["priority"]).word,
        user=row["user_id"],
        next_runs=moments,
        last_run=last,
        problem=problem,
        links={"self": here, "pause": f"{here}/pause", "resume": f"{here}/resume"},
    )
