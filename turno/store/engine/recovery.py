"""Mend a tenant's jobs from outside, as the engine: it may execute these functions and read nothing."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, LiteralString
from uuid import UUID

import psycopg
from psycopg import sql

from turno.store.one_row import value_of

Engine = psycopg.Connection[Any]
LOCK_TIMEOUT = "200ms"  # of a rescue


def rescue(
    engine: Engine,
    schema: str,
    job_id: UUID,
    token: UUID,
    *,
    cause: str,
    retry_in: timedelta,
    counted: bool | None = None,
    child: int | None = None,
) -> str:
    """Take a job from a dead attempt; returns pending, failed, cancelled, or gone if it had ended.

    `counted` states whether the job caused it; None: unknown, see job_rescue in the schema. `child` is the process
    that the caller saw end: then it makes no outside call any more. The attempt's backends are ended first. Waits up to
    a second for that, and LOCK_TIMEOUT for a lock: the caller serves other tenants, too, and tries again.
    """
    # A function in FROM is called before the select list; the setting ends with the transaction.
    statement: LiteralString = "SELECT {}.job_rescue(%s, %s, %s, %s, %s, %s) FROM set_config('lock_timeout', %s, true)"
    return str(_call(engine, schema, statement, job_id, token, cause, retry_in, counted, child, LOCK_TIMEOUT))


def show_running(
    engine: Engine, schema: str, job_id: UUID, token: UUID, *, worker: str, backend: int, since: timedelta
) -> bool:
    """Show a job as running for so long already, with its attempt; false if it is about to commit something."""
    statement: LiteralString = "SELECT {}.jobs_running(%s, %s, %s, %s, %s)"
    return bool(_call(engine, schema, statement, job_id, token, worker, backend, since))


def repair(engine: Engine, schema: str, backend: str) -> int:
    """Make a tenant's tickets agree with its jobs; returns how many rows changed."""
    return int(_call(engine, schema, "SELECT {}.job_repair(%s)", backend))


def expire(engine: Engine, schema: str) -> int:
    """Cancel waiting jobs whose time is over; returns how many."""
    return int(_call(engine, schema, "SELECT {}.job_expire()"))


def purge(engine: Engine, schema: str, older_than: timedelta, limit: int) -> int:
    """Remove up to `limit` jobs that ended that long ago, with their history; returns how many."""
    return int(_call(engine, schema, "SELECT {}.job_purge(%s, %s)", older_than, limit))


def unknown_files(engine: Engine, schema: str, files: Sequence[UUID]) -> list[UUID]:
    """Return the files in the folder that no row of the tenant names."""
    statement = sql.SQL("SELECT {}.files_unknown(%s)").format(sql.Identifier(schema))
    return [row[0] for row in engine.execute(statement, (list(files),)).fetchall()]


def purge_files(engine: Engine, schema: str, limit: int) -> int:
    """Remove up to `limit` uploads of a tenant that no job has read in time; returns how many."""
    return int(_call(engine, schema, "SELECT {}.file_purge(%s)", limit))


def prune_keys(engine: Engine) -> int:
    """Remove the rows that lock unused concurrency keys, up to 10,000; returns how many."""
    return int(value_of(engine, "SELECT prune_keys()"))


def prune_rate_limits(engine: Engine, limit: int) -> int:
    """Remove up to `limit` settled rate limits of users and tenants; returns how many."""
    return int(value_of(engine, "SELECT prune_rate_limits(%s)", limit))


def _call(engine: Engine, schema: str, statement: LiteralString, *parameters: Any) -> Any:
    return value_of(engine, sql.SQL(statement).format(sql.Identifier(schema)), *parameters)
