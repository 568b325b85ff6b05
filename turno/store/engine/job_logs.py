"""Keep what attempts have logged, as the engine: it may execute this function and read nothing."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
from psycopg import sql


class LoggedLine(NamedTuple):
    """A line of the log of one attempt; `number` is its place there."""

    job_id: UUID
    attempt: int
    number: int
    at: float  # seconds of the epoch
    level: str
    logger: str
    line: str


def put(engine: psycopg.Connection[Any], schema: str, lines: Sequence[LoggedLine], *, keep: int) -> None:
    """Write lines of one tenant's jobs; of each attempt the newest `keep` stay."""
    statement = sql.SQL("SELECT {}.job_logs_put(%s, %s, %s, %s, %s, %s, %s, %s)").format(sql.Identifier(schema))
    engine.execute(statement, (*map(list, zip(*lines, strict=True)), keep))
