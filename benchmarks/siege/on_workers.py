"""Attacks on the workers: rows that shared functions cannot take, and jobs that cannot be taken back (A)."""

from __future__ import annotations

import json
import secrets
import threading
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import psycopg

from benchmarks.siege.attack import Attack, Ending, both, first_line, of_job, refused
from benchmarks.siege.handlers import Stillborn, Stranded
from benchmarks.siege.target import ENDED, in_its_attempt
from tests.misbehaving_handlers import Faulty, FaultyHurried
from turno.jobs.job import Priority
from turno.store.operator import routing
from turno.store.operator.run_time_settings import set_tenant
from turno.store.statements import qualified
from turno.tenancy.identity.session import service_session
from turno.tenancy.provisioning.removal import remove_tenant

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from benchmarks.siege.target import Target

HOLD_OWN = "PERFORM claim_hold(job, token); PERFORM pg_sleep(600);"
OPEN_ATTEMPT = "SELECT token FROM background_job_attempt_rows WHERE job_id = %s AND finished_at IS NULL"
HOLD = "SELECT {}.claim_hold(%(job)s, %(token)s)"
UNKNOWN, MANY = "type_that_nobody_knows", 100


def oversized_queue(target: Target, _seconds: float) -> Callable[[], Ending]:
    """Enqueue from a job, for a later moment, a ticket that no index of ready tickets can store."""
    soon = datetime.now(UTC) + timedelta(seconds=1.5)
    poison = target.new_job(Faulty, {"how": "ok"}, run_at=soon, user_id="oversized")
    poison = replace(poison, queue=secrets.token_hex(2667))  # SQL of a handler names any queue
    attacker = target.in_a_job(target.enqueuing(poison), user=poison.user_id)
    target.reaches(attacker, *ENDED)
    return lambda: _of_enqueuing(target, attacker, "user_id = 'oversized' AND type = 'faulty'")


def near_the_limit(target: Target, _seconds: float) -> Callable[[], Ending]:
    """Enqueue from a job a ticket that fits the index; then an operator changes the tenant's backend."""
    poison = target.new_job(Faulty, {"how": "ok"}, user_id="near")
    poison = replace(poison, queue=secrets.token_hex(1322))
    attacker = target.in_a_job(target.enqueuing(poison), user=poison.user_id)
    target.reaches(attacker, *ENDED)
    with service_session(target.bench.logins, target.bench.logins.operator, application="turno-cli") as operator:
        try:
            set_tenant(operator, target.mallory.slug, {"backend": "rabbitmq"}, by="test")
            routing.reroute(operator, "pool")
            changed = Ending(decent=True, how="the operator changes the backend")
        except psycopg.Error as error:
            changed = Ending(decent=False, how=f"the operator cannot change a backend: {first_line(error)}")
        finally:
            set_tenant(operator, target.mallory.slug, {"backend": None}, by="test")
            with suppress(psycopg.Error):
                routing.reroute(operator, "pool")
    return lambda: both(_of_enqueuing(target, attacker, "user_id = 'near' AND type = 'faulty'", harmless=True), changed)


def timeless(target: Target, _seconds: float) -> Callable[[], Ending]:
    """Have a job enqueue one that may run since for ever, and cancel that over HTTP while it runs."""
    poison = target.new_job(FaultyHurried, {"how": "loop_forever"}, user_id="timeless")
    poison = replace(poison, run_at=cast("Any", "-infinity"))
    attacker = target.in_a_job(target.enqueuing(poison), user=poison.user_id)
    target.reaches(attacker, *ENDED)
    endless = target.rows("SELECT id FROM background_jobs WHERE user_id = 'timeless'")
    for row in endless:
        target.reaches(row["id"], "running")
        target.ask("timeless", "POST", f"/api/jobs/{row['id']}/cancel", {})
    return lambda: _of_enqueuing(target, attacker, "user_id = 'timeless'")


def _of_enqueuing(target: Target, attacker: UUID, poison: str, *, harmless: bool = False) -> Ending:
    row = target.job(attacker)
    if row is not None and row["status"] == "failed":
        return of_job(row)
    left = target.rows(f"SELECT status FROM background_jobs WHERE {poison} AND status IN ('pending', 'running')")  # noqa: S608
    if left and not harmless:
        return Ending(decent=False, how=f"accepted, and {len(left)} of it stay {left[0]['status']}")
    return both(of_job(row, may_complete=True), Ending(decent=True, how="its enqueued jobs harm no other tenant"))


def locked_ticket(target: Target, seconds: float) -> Callable[[], Ending]:
    """Lock the ticket of a job with the token of its attempt, and have its child killed at its time limit."""
    doomed = target.enqueue(target.new_job(FaultyHurried, {"how": "sleep_in_sql"}))
    target.reaches(doomed, "running")
    lock = _lock_ticket(target, doomed, max(seconds, 3.0))
    target.reaches(doomed, *ENDED, within=max(seconds, 3.0))
    return lambda: both(lock(), _own_failure(target, doomed))


def own_ticket_locked(target: Target, _seconds: float) -> Callable[[], Ending]:
    """Have a job lock its own ticket in a statement that outlives its child, which is killed at its time limit."""
    doomed = target.in_a_job(in_its_attempt(HOLD_OWN), FaultyHurried)
    target.reaches(doomed, "running")
    return lambda: _own_failure(target, doomed)


def locked_table(target: Target, seconds: float) -> Callable[[], Ending]:
    """Hold the lock that a migration of the tenant's jobs takes, while a job of it waits to begin."""
    waiting = target.enqueue(target.new_job(Faulty, {"how": "sleep_in_sql", "number": 1}))
    target.reaches(waiting, "running")
    with target.admin() as session, session.transaction():
        session.execute("LOCK TABLE background_jobs IN ACCESS EXCLUSIVE MODE")
        session.execute("SELECT pg_sleep(%s)", (max(seconds, 2.0),))
    return lambda: of_job(target.ends(waiting), may_complete=True)


def lost_host(target: Target, _seconds: float) -> Callable[[], Ending]:
    """Lose a host with a job of the attacker, whose ticket stays locked, and a job of the victim."""
    host = target.other_host()
    orphan = target.enqueue(target.new_job(Stranded, {"how": "wait_in_vain"}))
    mine = target.new_job(Stranded, {"how": "wait_in_vain"}, user_id="stranded", idempotency_key="stranded")
    neighbour = target.promise(mine)
    target.reaches(orphan, "running")
    target.reaches(neighbour, "running", tenant=target.victim)
    lock = _lock_ticket(target, orphan, 25.0)
    host.kill()
    host.wait()
    target.other_host()
    lost_at = time.monotonic()

    def ending() -> Ending:
        back = target.reaches(neighbour, "completed", tenant=target.victim, within=lost_at + 40 - time.monotonic())
        return both(lock(), Ending(back, f"the victim's job of that host {'was' if back else 'was not'} taken back"))

    return ending


def _lock_ticket(target: Target, job: UUID, seconds: float) -> Callable[[], Ending]:
    """Hold a ticket's lock from another job's session for so long; returns how that ended, at once if refused."""
    session = target.session()
    try:
        result = session.execute(OPEN_ATTEMPT, (job,)).fetchone()
        session.execute("BEGIN")
        session.execute(qualified(HOLD, target.mallory.schema), {"job": job, "token": result[0] if result else None})
    except psycopg.Error as error:
        ending = refused(error)
        session.close()
        return lambda: ending
    timer = threading.Timer(seconds, session.close)
    timer.daemon = True
    timer.start()
    return lambda: Ending(decent=True, how=f"another job's ticket was locked for {seconds:.0f} s")


def _own_failure(target: Target, job: UUID) -> Ending:
    return of_job(target.ends(job))


def removed_tenant(target: Target, seconds: float) -> Callable[[], Ending]:
    """Remove a tenant while a job of it computes and another waits in SQL."""
    # The first is killed at its time limit, when nothing is left where it could be taken back.
    jobs = [target.new_job(FaultyHurried, {"how": "loop_forever"}), target.new_job(Faulty, {"how": "sleep_in_sql"})]
    for job in [target.enqueue(new, target.third) for new in jobs]:
        target.reaches(job, "running", tenant=target.third)
    try:
        with psycopg.connect(target.bench.url, autocommit=True) as admin:
            remove_tenant(admin, target.bench.logins, target.third.slug)
    except psycopg.Error as error:
        ending = Ending(decent=False, how=f"it cannot be removed: {first_line(error)}")
        return lambda: ending
    time.sleep(seconds)
    return lambda: _of_removal(target)


def _of_removal(target: Target) -> Ending:
    left = target.rows("SELECT FROM turno.tickets WHERE tenant_id = %s", target.third.id)
    return Ending(not left, f"removed; tickets left: {len(left)}")


def dead_before_start(target: Target, _seconds: float) -> Callable[[], Ending]:
    """Have a handler kill its process when it is built, and another while it runs."""
    jobs = [
        target.enqueue(target.new_job(Stillborn, {"how": "ok"})),
        target.enqueue(target.new_job(Faulty, {"how": "kill_self"})),
    ]
    return lambda: both(*(_own_failure(target, job) for job in jobs))


def unknown_types(target: Target, _seconds: float) -> Callable[[], Ending]:
    """Have a job enqueue a hundred urgent ones of a type that no worker knows."""
    # Maintenance reports these tickets after their waiting time.
    long_due = datetime.now(UTC) - timedelta(minutes=1)
    unknown = target.new_job(
        Faulty, {"how": "ok"}, type=UNKNOWN, priority=Priority.URGENT, user_id="nobody", run_at=long_due
    )
    attacker = target.in_a_job(target.enqueuing(unknown, times=MANY), user=unknown.user_id)
    target.reaches(attacker, *ENDED)

    def ending() -> Ending:
        waiting = target.rows("SELECT id FROM background_jobs WHERE type = %s AND status = 'pending'", UNKNOWN)
        if not waiting:
            return of_job(target.job(attacker))
        shown = json.loads(target.ask(unknown.user_id, "GET", f"/api/jobs/{waiting[0]['id']}").body)
        reason = str(shown.get("waiting_for"))
        reply = Ending(reason == f"no living worker knows {UNKNOWN}", f"{len(waiting)} wait: {reason}")
        return both(of_job(target.job(attacker), may_complete=True), reply)

    return ending


ON_WORKERS = (
    Attack("a lost host's job that stays locked", "A3", "SQL", lost_host),
    Attack("a queue name of 5,334 characters, due soon", "A1", "a handler's SQL", oversized_queue),
    Attack("a ticket near the index's limit, then backend set", "A1", "a handler's SQL", near_the_limit),
    Attack("a locked ticket, its child killed", "A2", "SQL", locked_ticket),
    Attack("a job that locks its own ticket, its child killed", "A2", "a handler's SQL", own_ticket_locked),
    Attack("the table of its jobs locked, as by a migration", "A2", "the operator", locked_table),
    Attack("run_at of -infinity, cancelled while it runs", "A3", "a handler's SQL", timeless),
    Attack("a tenant removed while its jobs run", "A4", "the operator", removed_tenant),
    Attack("handlers that kill their process", "A5", "a handler", dead_before_start),
    Attack("a hundred urgent jobs of an unknown type", "A7", "a handler's SQL", unknown_types),
)
