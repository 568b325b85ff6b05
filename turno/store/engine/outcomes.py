"""Keep the statistics of what ended, as the engine."""

from datetime import timedelta
from typing import Any, LiteralString

import psycopg

Engine = psycopg.Connection[Any]


def count(engine: Engine, limit: int, from_lowest: bool) -> int:  # noqa: FBT001 - a pass hands on what it was given
    """Add up to `limit` outcomes to the counts; returns how many.

    What a transaction committed hours after it had its ids is found only `from_lowest`, which may read much.
    """
    return _number(engine, "SELECT count_outcomes(%s, %s)", limit, from_lowest)


def prune(engine: Engine, minutes: timedelta, jobs: timedelta) -> int:
    """Remove older counts by minute, and which jobs were counted; returns how many counts."""
    return _number(engine, "SELECT prune_outcome_counts(%s, %s)", minutes, jobs)


def _number(engine: Engine, call: LiteralString, *parameters: Any) -> int:
    row = engine.execute(call, parameters).fetchone()
    return int(row[0]) if row else 0
