"""Find the schedules that are due, and make their jobs, as the engine."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from turno.store.engine.engine import Engine
from turno.store.qualified import qualified


@dataclass(frozen=True, slots=True, kw_only=True)
class DueSchedule:
    """A schedule whose first moment without a job comes soon or is past; `now` is the database's time.

    `version` is None if no handler of its type is known. `set_back` states that the database's clock was set back after
    `next_at` was decided.
    """

    schedule_id: UUID
    name: str
    cron: str | None
    every: int | None
    zone: str
    spread: int
    missed: Any
    next_at: datetime
    set_back: bool
    now: datetime
    version: int | None
    queue: str | None
    max_attempts: int | None
    backend: str


def due_tenants(engine: Engine, ahead: timedelta) -> list[int]:
    """Return the ids of the active tenants, not paused, with a schedule whose next moment comes within `ahead`."""
    ids: list[int] = engine.value("SELECT schedule_tenants(%s)", ahead)
    return ids


def due(engine: Engine, tenant_id: int, ahead: timedelta) -> list[DueSchedule]:
    """Return the tenant's schedules whose next moment comes within `ahead`, the earliest first."""
    return engine.rows(DueSchedule, "SELECT * FROM schedules_due(%s, %s)", tenant_id, ahead)


def fire(  # noqa: PLR0917 - as the database's function takes them
    engine: Engine,
    schema: str,
    schedule: DueSchedule,
    moments: Sequence[datetime],
    next_at: datetime,
    missed: int,
    problem: str | None,
    most_open: int,
) -> int:
    """Make the jobs of these moments and set the next one; returns how many, 0 if another process was faster.

    If `next_at` is the schedule's own, only the problem is recorded.
    """
    made = engine.value(
        qualified(
            "SELECT {}.schedule_fire(%s, %s, %s::timestamptz[], %s, %s, %s, %s::smallint, %s, %s, %s, %s)", schema
        ),
        schedule.schedule_id,
        schedule.next_at,
        list(moments),
        next_at,
        missed,
        problem,
        schedule.version,
        schedule.queue,
        schedule.max_attempts,
        schedule.backend,
        most_open,
    )
    return int(made or 0)


def repair(engine: Engine, schema: str) -> int:
    """Make the copies in the control schema agree with the tenant's schedules; returns how many rows changed."""
    return int(engine.value(qualified("SELECT {}.schedule_repair()", schema)))
