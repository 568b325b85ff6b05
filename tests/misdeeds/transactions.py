"""Effects of handlers on their transaction, and on other transactions by locks and collisions."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from tests.misdeeds.deed import FaultyPayload, write
from turno.jobs.job_context import JobContext

if TYPE_CHECKING:
    from collections.abc import Callable


def sleep_in_sql(job: JobContext, payload: FaultyPayload) -> dict[str, Any]:
    job.connection.execute(f"SELECT pg_sleep({payload.number or 600})".encode())
    return {}


def raw_commit(job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
    write(job)
    job.connection.execute("COMMIT")
    return {}


def raw_rollback(job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
    write(job)
    job.connection.execute("ROLLBACK")
    return {}


def refused(name: str) -> Callable[[JobContext, FaultyPayload], None]:
    return lambda job, _payload: getattr(job.connection, name)()


def leave_aborted(job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
    write(job)
    try:
        job.connection.execute("SELECT nonsense")
    except psycopg.Error:
        return {}
    raise AssertionError


def end_own_backend(job: JobContext, _payload: FaultyPayload) -> None:
    write(job)
    job.connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")


def run_sql(job: JobContext, payload: FaultyPayload) -> dict[str, Any]:
    """SQL of the caller's choice, as by an injection."""
    cursor = job.connection.execute(payload.text)
    return {"rows": [list(map(str, row)) for row in cursor.fetchall()] if cursor.description else []}


def run_sql_with_token(job: JobContext, payload: FaultyPayload) -> dict[str, Any]:
    """SQL of an attacker with the token of the attempt from the process's memory."""
    claim = job.claim  # type: ignore[attr-defined]
    names = "SELECT set_config('siege.job', %s, true), set_config('siege.token', %s, true)"
    job.connection.execute(names, (str(claim.job_id), str(claim.token)))
    return run_sql(job, payload)


def deadlock_once(job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
    if not hasattr(deadlock_once, "met"):
        deadlock_once.met = True  # type: ignore[attr-defined]
        write(job)
        job.connection.execute("DO $$ BEGIN RAISE EXCEPTION 'met' USING ERRCODE = '40P01'; END $$")
    write(job)
    return {}


def deadlock(job: JobContext, payload: FaultyPayload) -> dict[str, Any]:
    """Lock the first of the two customers in `text`, wait until another job has locked the second, then lock the
    second."""
    mine, other = payload.text.split()
    lock = "SELECT 1 FROM customers WHERE id = %s FOR UPDATE"
    job.connection.execute(lock, (mine,))
    meeting = Path(os.environ["MEET"])
    (meeting / mine).touch()
    while not (meeting / other).exists():
        time.sleep(0.01)
    job.connection.execute(lock, (other,))
    return {}


def wait_for_a_lock(job: JobContext, payload: FaultyPayload) -> dict[str, Any]:
    """Wait for the customer in `text`, but not for long; say so in a file when it was in vain."""
    job.connection.execute("SET LOCAL lock_timeout = '300ms'")
    try:
        job.connection.execute("SELECT 1 FROM customers WHERE id = %s FOR UPDATE", (payload.text,))
    except psycopg.errors.LockNotAvailable:
        (Path(os.environ["MEET"]) / "in vain").touch()
        raise
    return {}


def commit_often(job: JobContext, payload: FaultyPayload) -> dict[str, Any]:
    """Work for longer than any of its transactions lasts."""
    for step in range(payload.number):
        job.connection.execute("SELECT pg_sleep(0.3)")
        job.checkpoint(step)
    return {}


def hold_a_lock(job: JobContext, payload: FaultyPayload) -> dict[str, Any]:
    """Run the SQL, then keep its locks for long; later attempts return at once."""
    if job.attempt == 1:
        job.connection.execute(payload.text)
        time.sleep(600)
    return {}


def begin_again(job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
    job.connection.execute("COMMIT; BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY")
    return {}


def transaction_id(job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
    """Say which transaction and which process this is."""
    row = job.connection.execute("SELECT pg_current_xact_id()::text, pg_backend_pid()").fetchone()
    assert row is not None
    return {"transaction": row[0], "backend": row[1], "pid": os.getpid()}


def collide_once(job: JobContext, payload: FaultyPayload) -> dict[str, Any]:
    """Meet another transaction the first time; say how often it was run."""
    runs = TRIES[payload.text] = TRIES.get(payload.text, 0) + 1
    if runs == 1:
        job.connection.execute("DO $$ BEGIN RAISE EXCEPTION 'met' USING ERRCODE = '40001'; END $$")
    return {"runs": runs}


def wait_in_vain(job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
    """Show that it runs, then wait for long; later attempts return at once."""
    if job.attempt == 1:
        job.progress(1, 2, "waiting")
        time.sleep(600)
    return {}


def commit_and_begin(job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
    """End the transaction and leave one that looks like it."""
    job.connection.execute("COMMIT")
    job.connection.execute("BEGIN")
    job.connection.execute(f"SAVEPOINT {job.transaction._savepoint or 'job'}".encode())  # type: ignore[attr-defined]
    return {}


def defer_a_refusal(job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
    """Write a row that only the commit refuses."""
    job.connection.execute(
        "INSERT INTO refused_at_commit VALUES (1), (1)",
    )
    return {}


def collide_at_commit(job: JobContext, payload: FaultyPayload) -> dict[str, Any]:
    """Write a row that collides at the commit, the first `number` times; return the number of runs."""
    runs = TRIES[payload.text] = TRIES.get(payload.text, 0) + 1
    if runs <= payload.number:
        job.connection.execute("INSERT INTO met_at_commit VALUES (1)")
    return {"runs": runs}


def release_savepoint(job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
    """Release the job's savepoint, with the name that another session has read in pg_stat_activity."""
    name = job.transaction._savepoint  # type: ignore[attr-defined]
    job.connection.execute(f"RELEASE SAVEPOINT {name}".encode())
    return {}


TRIES: dict[str, int] = {}


def hold_savepoints(job: JobContext, payload: FaultyPayload) -> dict[str, Any]:
    """Open `number` nested savepoints with a write in each, which costs a lock each, and keep them open."""
    insert = (
        "SAVEPOINT s; INSERT INTO customers (id, company_name, tax_condition, country)"
        " VALUES ('S%d', 'Faulty', 'registered', 'held');"
    )
    for first in range(0, payload.number, 500):
        job.connection.execute("".join(insert % number for number in range(first, first + 500)).encode())
    job.connection.execute("SELECT pg_sleep(600)")
    return {}


def listen_and_wait(job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
    """Listen on a channel, and keep the transaction after that open."""
    job.connection.execute("LISTEN flood")
    job.checkpoint({})
    job.connection.execute("SELECT pg_sleep(600)")
    return {}
