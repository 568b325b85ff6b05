"""Find the schedules of all tenants that are due, and make their jobs, as the engine."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, LiteralString
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from turno.store.one_row import value_of

Engine = psycopg.Connection[Any]
BEGINNING: tuple[Any, UUID] = ("-infinity", UUID(int=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class DueSchedule:
    """A schedule whose first moment without a job comes soon or is past; `now` is what the database says.

    Without a version nobody has told the database of its type. `set_back` says that its next moment was decided before
    the database's clock was set back.
    """

    schedule_id: UUID
    slug: str
    schema: str
    name: str
    type: str
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

    @property
    def position(self) -> tuple[datetime, UUID]:
        """Return what the next page begins behind."""
        return self.next_at, self.schedule_id


def due(engine: Engine, ahead: timedelta, limit: int, after: tuple[Any, UUID] = BEGINNING) -> list[DueSchedule]:
    """Return a page of the schedules whose next moment comes within `ahead`, the earliest first."""
    with engine.cursor(row_factory=class_row(DueSchedule)) as cursor:
        return cursor.execute("SELECT * FROM schedules_due(%s, %s, %s, %s)", (ahead, limit, *after)).fetchall()


def fire(  # noqa: PLR0917 - as the database's function takes them
    engine: Engine,
    one: DueSchedule,
    moments: Sequence[datetime],
    next_at: datetime,
    missed: int,
    problem: str | None,
    most_open: int,
) -> int:
    """Make the jobs of these moments and set the next one; returns how many, none if another process was faster."""
    statement: LiteralString = (
        "SELECT {}.schedule_fire(%s, %s, %s::timestamptz[], %s, %s, %s, %s::smallint, %s, %s, %s, %s)"
    )
    made = value_of(
        engine,
        sql.SQL(statement).format(sql.Identifier(one.schema)),
        one.schedule_id,
        one.next_at,
        list(moments),
        next_at,
        missed,
        problem,
        one.version,
        one.queue,
        one.max_attempts,
        one.backend,
        most_open,
    )
    return int(made or 0)
