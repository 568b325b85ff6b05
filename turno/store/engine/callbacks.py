"""Whom to tell of jobs' ends, as the engine."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.rows import class_row

Engine = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True)
class DueCallback:
    """One that was taken to be delivered; `attempts` counts this one, too.

    Its `url` is an operator's if it has an `address_id`, and a mail address if it begins with mailto: for a mail in
    `language`.
    """

    id: int
    job_id: UUID
    slug: str
    schema: str
    url: str
    language: str | None
    address_id: int | None
    attempts: int


@dataclass(frozen=True, slots=True)
class EndedJob:
    """What is told of a job."""

    type: str
    status: str
    finished_at: datetime | None


def take(engine: Engine, pauses: Sequence[timedelta], *, each: int, limit: int) -> list[DueCallback]:
    """Take those that are due, at most `each` of a tenant's; each is due again after its pause."""
    with engine.cursor(row_factory=class_row(DueCallback)) as cursor:
        return cursor.execute("SELECT * FROM callbacks_due(%s, %s, %s)", (list(pauses), each, limit)).fetchall()


def job_of(engine: Engine, callback: DueCallback) -> EndedJob | None:
    """Return how its job ended; None if there is no such job any more."""
    with engine.cursor(row_factory=class_row(EndedJob)) as cursor:
        statement = sql.SQL("SELECT * FROM {}.callback_job(%s)").format(sql.Identifier(callback.schema))
        return cursor.execute(statement, (callback.job_id,)).fetchone()


def close(engine: Engine, callback: DueCallback) -> None:
    """Never take it again."""
    engine.execute("SELECT callback_done(%s)", (callback.id,))


def failed(engine: Engine, callback: DueCallback, error: str) -> None:
    """Note why it was not taken, for operators."""
    engine.execute("SELECT callback_failed(%s, %s)", (callback.id, error))


def give_up(engine: Engine, callback: DueCallback, reason: str) -> None:
    """Say so in the job's history, and take it again only when an operator asks for it."""
    statement = sql.SQL("SELECT {}.callback_abandon(%s, %s)").format(sql.Identifier(callback.schema))
    engine.execute(statement, (callback.id, reason))
