"""A schedule as the API shows it, and as it is sent."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, Literal
from urllib.parse import quote
from uuid import UUID

import msgspec

from turno.capabilities.schedules.changes import NewSchedule, stored_rule
from turno.jobs.job import Priority
from turno.jobs.recurrence import LONGEST, LONGEST_CRON, MOST_SPREAD, SHORTEST, InvalidRule, Missed
from turno.tenancy.identity.tenant import Tenant
from turno.web.api.submit_body import Band
from turno.web.http.json_answers import from_row
from turno.web.http.query import LONGEST_TEXT, NOT_GIVEN, described
from turno.web.services import services

NEXT_SHOWN = 5

Cron = Annotated[
    str,
    described(
        "Minute, hour, day of the month, month, day of the week, in the zone; or @hourly, @daily, @weekly, @monthly,"
        " @yearly. Either this or `every`.",
        min_length=1,
        max_length=LONGEST_CRON,
    ),
]
Every = Annotated[int, described("Seconds between two moments.", ge=SHORTEST, le=LONGEST)]
Zone = Annotated[
    str, described("The time zone that cron is read in, such as America/Argentina/Buenos_Aires.", max_length=64)
]
Spread = Annotated[
    int,
    described(
        "It fires up to so many seconds later; how many the names of tenant and schedule decide. Left out, it is 0 for"
        " cron, and for `every` the interval itself.",
        ge=0,
        le=MOST_SPREAD,
    ),
]
MissedRuns = Annotated[
    Missed, described("Of moments that passed while nothing ran: none, one job for all of them, or the last 100.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRequest:
    """What PUT takes; the payload is checked against the dataclass of its type."""

    type: Annotated[str, described("A type of job.", min_length=1, max_length=LONGEST_TEXT)]
    payload: Annotated[msgspec.Raw, described("What each of its jobs is given.")]
    cron: Cron = NOT_GIVEN
    every: Every = NOT_GIVEN
    zone: Zone = "UTC"
    spread: Spread = NOT_GIVEN
    missed: MissedRuns = "once"
    priority: Band = "normal"


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last moment that has a job, the job, and its status."""

    moment: datetime
    job_id: UUID
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSummary:
    """One schedule. `problem` says why a moment had no job, or will have none."""

    schedule_id: UUID
    name: str
    type: str
    priority: Literal["urgent", "normal", "low"]
    user: str
    cron: str | None
    every: int | None
    zone: str
    spread: int
    missed: Missed
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
            moments = list(islice(stored_rule(row, tenant).after(row["now"]), shown))
    except InvalidRule as error:
        problem = f"cannot be read by this host: {error}"
    if row["type"] not in {handler.type for handler in services().registry.handlers}:
        problem = f"no handler has the type {row['type']}"
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
        links=schedule_links(row["name"], root),
    )


def schedule_links(name: str, root: str) -> dict[str, str]:
    """Return the addresses of a schedule and of what can be done with it."""
    here = f"{root}/api/schedules/{quote(name, safe='')}"
    return {"self": here, "pause": f"{here}/pause", "resume": f"{here}/resume"}


def new_schedule(name: str, body: ScheduleRequest, handler: Any, payload: Any, user: str) -> NewSchedule:
    """Return what to save."""
    return NewSchedule(
        name=name,
        handler=handler,
        payload=payload,
        user_id=user,
        cron=body.cron,
        every=body.every,
        zone=body.zone,
        spread=body.spread,
        missed=body.missed,
        priority=Priority[body.priority.upper()],
    )
