"""Attacks on shared resources of the server: lock table, notifications, connections, disk and log buffer (B)."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import psycopg

from benchmarks.siege.attack import Attack, Ending, first_line, of_job, refused
from benchmarks.siege.target import in_its_attempt
from tests.misbehaving_handlers import Faulty, FaultyOnce
from turno.store.engine.engine import Engine
from turno.store.statements import qualified
from turno.tenancy.identity.session import service_session
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.siege.target import Target

SAVEPOINTS = 100_000
LINES = 20_000
LOST = 1_000_000
CRASH = "SELECT error FROM background_job_attempts WHERE job_id = %s AND outcome = 'crashed'"
# 1.6 GB of sorted texts, and a session may write 1 GB.
TEXTS = "SELECT repeat(md5(g::text), 250) AS t FROM generate_series(1, 200000) AS g ORDER BY 1"
LARGE_SORT = f"SELECT count(*) FROM ({TEXTS} OFFSET 0) AS s"  # noqa: S608 - constants
MANY_TOKENS = f"ARRAY(SELECT gen_random_uuid() FROM generate_series(1, {LOST}))"  # noqa: S608 - a number


def full_lock_table(target: Target, _seconds: float) -> Callable[[], Ending]:
    """Open nested savepoints in a job, each with a separate lock, until the lock table is full."""
    job = target.enqueue(target.new_job(FaultyOnce, {"how": "hold_savepoints", "number": SAVEPOINTS}, user_id="locks"))
    crashed = wait_until(lambda: target.rows(CRASH, job) != [], within=5 * target.patience)
    target.ask("locks", "POST", f"/api/jobs/{job}/cancel", {})
    how = first_line(target.rows(CRASH, job)[0]["error"]["message"]) if crashed else "its session was not ended"
    return lambda: Ending(crashed, how)


def full_notification_queue(target: Target, seconds: float) -> Callable[[], Ending]:
    """Listen in an open transaction while another session floods the channel."""
    with target.session() as listener, target.session() as sender, ExitStack() as ending:
        ending.callback(listener.rollback)
        listener.execute("LISTEN flood")
        listener.execute("BEGIN")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            sender.execute("SELECT pg_notify('flood', rpad(g::text, 7999, 'x')) FROM generate_series(1, 1000) AS g")
        usage = target.rows("SELECT pg_notification_queue_usage() AS usage")[0]["usage"]
        with service_session(target.bench.logins, target.bench.logins.web, application="turno-web") as web:
            Engine.on(web).wake()
    return lambda: Ending(decent=True, how=f"the queue was {usage:.1%} full, and a hint was sent or left out")


def all_connections(target: Target, _seconds: float) -> Callable[[], Ending]:
    """Log in as two tenants' handlers until the server refuses; then each service logs in."""
    with ExitStack() as sessions:
        opened, limits = 0, list[psycopg.Error]()
        for tenant in (target.mallory, target.third):
            try:
                while True:
                    sessions.enter_context(target.session(tenant))
                    opened += 1
            except psycopg.Error as error:
                limits.append(error)
        logins = target.bench.logins
        try:
            for role in (logins.engine, logins.web, logins.operator):
                service_session(logins, role, application="turno-siege").close()
        except psycopg.Error as error:
            ending = Ending(decent=False, how=f"a service was refused: {first_line(error)}")
            return lambda: ending
    return lambda: Ending(decent=True, how=f"{opened} sessions, then {refused(limits[-1]).how}")


def temporary_files(target: Target, _seconds: float) -> Callable[[], Ending]:
    """Have a job sort more than a session may write to temporary files."""
    job = target.in_a_job(in_its_attempt(f"PERFORM ({LARGE_SORT});"))
    return lambda: of_job(target.ends(job))


def log_lines(target: Target, _seconds: float) -> Callable[[], Ending]:
    """Have a job log more lines than the buffer that all jobs of a child share has."""
    job = target.enqueue(target.new_job(Faulty, {"how": "log", "text": "ok", "number": LINES}))
    return lambda: of_job(target.ends(job), may_complete=True)


def lost_claims(target: Target, _seconds: float) -> Callable[[], Ending]:
    """Report a million lost claims in one call."""
    with target.session() as session:
        try:
            session.execute(
                qualified(f"SELECT {{}}.claims_lost({MANY_TOKENS}, {MANY_TOKENS})", target.mallory.schema).encode()
            )
        except psycopg.Error as error:
            ending = refused(error)
            return lambda: ending
    counted = len(target.rows("SELECT FROM turno.outcomes WHERE outcome = 'claim_lost'"))
    return lambda: Ending(counted == 0, f"{counted} of {LOST} lost claims were counted")


ON_SERVER = (
    Attack("savepoints that fill the lock table", "B", "a handler's SQL", full_lock_table),
    Attack("a listener that keeps the notification queue full", "B", "a handler's session", full_notification_queue),
    Attack("sessions that take all connections", "B", "a handler's login", all_connections),
    Attack("a sort that fills the disk with temporary files", "B", "a handler's SQL", temporary_files),
    Attack("lines that fill the log buffer", "B", "a handler", log_lines),
    Attack("a million lost claims", "B", "a handler's session", lost_claims),
)
