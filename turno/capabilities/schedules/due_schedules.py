"""Find the schedules that are due, and make their jobs, as the engine."""

from datetime import timedelta

from turno.jobs.firing import MOST_MISSED, Firing
from turno.maintenance.recurring import DueRule
from turno.store.engine.engine import Engine
from turno.store.statements import qualified


def due_tenants(engine: Engine, ahead: timedelta) -> list[int]:
    """Return the ids of the active tenants, not paused, with a schedule whose next moment comes within `ahead`."""
    ids: list[int] = engine.value("SELECT schedule_tenants(%s)", ahead)
    return ids


def due(engine: Engine, tenant_id: int, ahead: timedelta) -> list[DueRule]:
    """Return the tenant's schedules whose next moment comes within `ahead`, the earliest first."""
    return engine.rows(DueRule, "SELECT * FROM schedules_due(%s, %s)", tenant_id, ahead)


def fire(engine: Engine, schema: str, schedule: DueRule, decided: Firing, problem: str | None) -> int:
    """Make the jobs of these moments and set the next one; returns how many, 0 if another process was faster.

    If the next moment is the schedule's own, only the problem is recorded.
    """
    made = engine.value(
        qualified(
            "SELECT {}.schedule_fire(%s, %s, %s::timestamptz[], %s, %s, %s, %s::smallint, %s, %s, %s, %s)", schema
        ),
        schedule.rule_id,
        schedule.next_at,
        decided.moments,
        decided.next_at,
        decided.missed,
        problem,
        schedule.version,
        schedule.queue,
        schedule.max_attempts,
        schedule.backend,
        MOST_MISSED,
    )
    return int(made or 0)


def repair(engine: Engine, schema: str) -> int:
    """Make the copies in the control schema agree with the tenant's schedules; returns how many rows changed."""
    return int(engine.value(qualified("SELECT {}.schedule_repair()", schema)))
