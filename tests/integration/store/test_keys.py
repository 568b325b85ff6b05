"""Jobs under a concurrency key: few of a tenant's at once, none forgotten, and no session waits for a key's lock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests import attempt_steps, claiming
from tests.installation import ExampleInstallation
from turno.jobs.job import Claim, Priority
from turno.jobs.label import lacking
from turno.runner.session import HandlerConnection
from turno.store.engine.claims import Claimer
from turno.store.engine.engine import Engine
from turno.store.handler import attempts
from turno.tenancy.identity.session import handler_session, service_session
from turno.testing.invariants import judge_of

TYPES = [("batch_invoicing", 1)]
WORK = {"order_ids": [1]}
NOW = timedelta(0)
# Of this session: the server's own counters would include other sessions.
INDEX_ENTRIES_READ = """
SELECT sum(pg_stat_get_xact_tuples_returned(indexrelid))::bigint
FROM pg_index WHERE indrelid = 'turno.tickets'::regclass
"""


@pytest.fixture(autouse=True)
def judged(world: ExampleInstallation) -> Iterator[None]:
    """No test breaks an invariant of keys."""
    yield
    with judge_of(world.url, world.one) as judge:
        assert judge.broken() == []
    rule(world)


def rule(world: ExampleInstallation, limit: int | None = None, rate: int | None = None, period: float = 60) -> None:
    world.rows(
        "UPDATE turno.handlers SET key_limit = %s, key_rate = %s, key_period = %s WHERE type = 'batch_invoicing'",
        limit, rate, period if rate else None,
    )  # fmt: skip


def line(world: ExampleInstallation, length: int, key: str = "printer 3", **options: Any) -> list[UUID]:
    return [world.enqueue(WORK, concurrency_key=key, **options) for _ in range(length)]


def states(world: ExampleInstallation, jobs: list[UUID]) -> list[str | None]:
    found = [world.ticket(job) for job in jobs]
    return [one["state"] if one else None for one in found]


def worker(world: ExampleInstallation) -> UUID:
    return world.engine.start_worker(backend="exec", host="test", pid=1)


def claim(world: ExampleInstallation, slots: int = 10) -> list[Claim]:
    return claiming.claim(world.engine, worker(world), queues=["cold"], types=TYPES, backend="exec", slots=slots)


@contextmanager
def at_work(world: ExampleInstallation, one: Claim) -> Iterator[HandlerConnection]:
    session = handler_session(world.logins, one.login, application="test", kind=HandlerConnection)
    try:
        yield session
    finally:
        psycopg.Connection.close(session)


def complete(world: ExampleInstallation, one: Claim) -> None:
    with at_work(world, one) as session:
        attempt_steps.begin(session)
        attempt_steps.complete(session, one, "{}")
        psycopg.Connection.commit(session)


def test_one_of_a_key_runs_and_its_end_lets_the_next_one(world: ExampleInstallation) -> None:
    jobs = line(world, 3)
    free = world.enqueue(WORK)
    for turn in range(3):
        taken = claim(world)
        assert {one.job_id for one in taken} == {jobs[turn], *([free] if turn == 0 else [])}
        assert states(world, jobs[turn:]) == ["running", *["waiting"] * (2 - turn)]
        for one in taken:
            complete(world, one)
        # In the transaction of the end: no promotion has run since.
        assert states(world, jobs[turn + 1 :]) == ["ready", "waiting"][: 2 - turn]


def _cancelled(world: ExampleInstallation, one: Claim) -> None:
    world.engine.unclaim(one.job_id, one.token, NOW)
    assert states(world, [one.job_id]) == ["ready"]  # it has kept its place
    assert world.cancel(one.job_id) == "cancelled"


def _expired(world: ExampleInstallation, one: Claim) -> None:
    world.engine.unclaim(one.job_id, one.token, NOW)
    world.rows("UPDATE background_jobs SET expires_at = clock_timestamp() WHERE id = %s", one.job_id)
    assert world.engine.expire(world.one.schema) == 1


def _rescued(world: ExampleInstallation, one: Claim) -> None:
    schema = one.login.schema
    world.engine.rescue(schema, one.job_id, one.token, cause="killed", retry_in=NOW, counted=True)


def _put_off(world: ExampleInstallation, one: Claim) -> None:
    world.engine.unclaim(one.job_id, one.token, timedelta(minutes=1))
    world.rows(
        "UPDATE background_jobs j SET run_at = t.run_at FROM turno.tickets t WHERE t.job_id = j.id AND j.id = %s",
        one.job_id,
    )


def _failed(again: timedelta | None) -> Callable[[ExampleInstallation, Claim], None]:
    def fail(world: ExampleInstallation, one: Claim) -> None:
        with at_work(world, one) as session:
            attempt_steps.start(session, one, "test")
            attempts.fail(session, one, "error", {"class": "Oops"}, again)

    return fail


def _reordered(world: ExampleInstallation, one: Claim) -> None:
    world.engine.unclaim(one.job_id, one.token, NOW)
    later = datetime.now(UTC) + timedelta(hours=1)
    world.rows("SELECT job_reorder(%s, NULL, %s)", one.job_id, later)


ENDS = {
    "cancelled": _cancelled,
    "expired": _expired,
    "its worker was killed": _rescued,
    "put off": _put_off,
    "to be tried again": _failed(timedelta(minutes=1)),
    "to be tried again at once": _failed(NOW),
    "failed for good": _failed(None),
    "rescheduled by an operator": _reordered,
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_second_job_follows_any_end_of_the_first(
    world: ExampleInstallation, end: Callable[[ExampleInstallation, Claim], None]
) -> None:
    first, second = line(world, 2)
    (one,) = claim(world)
    end(world, one)
    assert states(world, [second]) == ["ready"]
    assert states(world, [first]) in (["scheduled"], [None])
    assert [two.job_id for two in claim(world)] == [second]


def test_so_many_of_a_key_run_at_once(world: ExampleInstallation) -> None:
    rule(world, limit=3)
    jobs = line(world, 5)
    taken = claim(world)
    assert len(taken) == 3
    complete(world, taken[0])
    assert Counter(states(world, jobs)) == {"running": 2, "ready": 1, "waiting": 1, None: 1}


def test_another_tenants_key_of_the_same_name_is_another(world: ExampleInstallation) -> None:
    line(world, 2)
    line(world, 2, tenant=world.other)
    assert Counter(one.login.slug for one in claim(world)) == {"suc0001": 1, "suc0002": 1}


def test_the_best_band_of_a_key_goes_first(world: ExampleInstallation) -> None:
    normal, other = line(world, 2)
    (urgent,) = line(world, 1, priority=Priority.URGENT)
    (low,) = line(world, 1, priority=Priority.LOW)
    order = []
    for _ in range(4):
        (one,) = claim(world)
        order.append(one.job_id)
        complete(world, one)
    assert order == [urgent, normal, other, low]


def test_so_many_of_a_key_begin_in_a_period(world: ExampleInstallation) -> None:
    rule(world, rate=2)
    jobs = line(world, 4)
    first = claim(world)
    assert [one.job_id for one in first] == jobs[:2]
    for one in first:
        complete(world, one)
    assert claim(world) == []
    # One of the two was begun longer ago than that.
    world.rows("UPDATE turno.key_looks SET at = clock_timestamp() WHERE ctid = (SELECT min(ctid) FROM turno.key_looks)")
    assert [one.job_id for one in claim(world)] == jobs[2:3]
    assert claim(world) == []
    world.rows("UPDATE turno.key_looks SET at = clock_timestamp()")
    assert [one.job_id for one in claim(world)] == jobs[3:]


def test_a_job_that_was_let_run_has_its_start_in_reserve(world: ExampleInstallation) -> None:
    """Workers that come back after an hour do not begin at once the jobs promoted in the meantime."""
    rule(world, rate=2)
    jobs = line(world, 6)
    for _ in range(3):
        world.engine.promote(100)
        assert Counter(states(world, jobs)) == {"ready": 2, "waiting": 4}


def test_idle_worker_looks_when_the_next_of_a_key_may_run(world: ExampleInstallation) -> None:
    rule(world, rate=1, period=2.5)
    claimer = Claimer(backend="exec", queues=["cold"], types=TYPES, clock=lambda: 1000.0)
    own = worker(world)
    assert claimer.claim(world.engine, own, slots=1) == []  # and promoted: the next promotion is for 0.1 s later
    jobs = line(world, 2)
    assert claimer.claim(world.engine, own, slots=1) == []
    assert claimer.due_in == pytest.approx(0.1)
    assert [one.job_id for one in claim(world)] == jobs[:1]
    assert claimer.claim(world.engine, own, slots=1) == []
    assert 1 < claimer.due_in < 2.6


def test_neither_an_enqueue_nor_an_end_waits_for_a_key(world: ExampleInstallation) -> None:
    """Two ends at once: a transaction that does not see its counterpart leaves a mark for the next promotion."""
    rule(world, limit=2)
    jobs = line(world, 4)
    one, two = claim(world)
    with at_work(world, one) as slow:
        slow.execute("SET lock_timeout = '1s'")
        attempt_steps.begin(slow)
        attempt_steps.complete(slow, one, "{}")
        complete(world, two)
        jobs += line(world, 1)
        world.engine.promote(100)
        assert Counter(states(world, jobs)) == {"running": 1, "waiting": 3, None: 1}
        psycopg.Connection.commit(slow)
    assert Counter(states(world, jobs)) == {"ready": 1, "waiting": 2, None: 2}
    world.engine.promote(100)
    assert Counter(states(world, jobs)) == {"ready": 2, "waiting": 1, None: 2}


def test_two_that_look_at_once_let_no_more_than_may_run(world: ExampleInstallation) -> None:
    """An end and a promotion: neither sees the jobs of its counterpart, so one of them leaves them to a later look."""
    first, second = line(world, 2)
    (one,) = claim(world)
    rule(world, limit=2)
    world.rows("INSERT INTO turno.key_looks VALUES (%s, 'printer 3', clock_timestamp(), false)", world.one.id)
    with (
        Engine.on(service_session(world.logins, world.logins.engine, application="test")) as engine,
        engine.transaction(),
    ):
        assert engine.promote(100) == 1
        urgent = line(world, 2, priority=Priority.URGENT)
        world.rows("UPDATE turno.tickets SET state = 'waiting' WHERE state = 'scheduled'")
        complete(world, one)
        assert states(world, urgent) == ["waiting", "waiting"]
    assert states(world, [first, second, *urgent]) == [None, "ready", "waiting", "waiting"]
    world.engine.promote(100)
    assert states(world, [first, second, *urgent]) == [None, "ready", "ready", "waiting"]


def test_rolled_back_end_lets_no_job_run(world: ExampleInstallation) -> None:
    jobs = line(world, 2)
    (one,) = claim(world)
    with at_work(world, one) as session:
        attempt_steps.begin(session)
        attempt_steps.complete(session, one, "{}")
        psycopg.Connection.rollback(session)
    assert states(world, jobs) == ["running", "waiting"]


def test_locked_waiting_job_is_not_forgotten(world: ExampleInstallation) -> None:
    first, second = line(world, 2)
    (one,) = claim(world)
    with world.admin.transaction():
        world.admin.execute("SELECT FROM turno.tickets WHERE job_id = %s FOR UPDATE", (second,))
        complete(world, one)
    assert states(world, [first, second]) == [None, "waiting"]
    world.engine.promote(100)
    assert states(world, [second]) == ["ready"]


def test_old_snapshot_lets_no_job_run(world: ExampleInstallation) -> None:
    jobs = line(world, 2)
    (one,) = claim(world)
    with world.admin.transaction():
        world.admin.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        world.admin.execute("DELETE FROM turno.tickets WHERE job_id = %s", (one.job_id,))
        assert states(world, jobs[1:]) == ["waiting"]
    world.engine.promote(100)
    assert states(world, jobs[1:]) == ["ready"]
    world.rows("SELECT job_repair('exec')")


def test_a_hint_at_a_job_lets_it_run_if_it_is_next(world: ExampleInstallation) -> None:
    first, second = line(world, 2)
    assert world.engine.claim_job(worker(world), second, types=TYPES) is not None
    assert world.engine.claim_job(worker(world), first, types=TYPES) is None


def test_many_claim_and_end_at_once_and_never_two_of_a_key(world: ExampleInstallation) -> None:
    rule(world, limit=2)
    jobs = [job for key in "abc" for job in line(world, 8, key)]

    def work(_: int) -> int:
        done = 0
        with Engine.on(service_session(world.logins, world.logins.engine, application="test")) as engine:
            own = engine.start_worker(backend="exec", host="test", pid=1)
            for _ in range(200):
                found = claiming.claim(engine, own, queues=["cold"], types=TYPES, backend="exec", slots=3)
                with judge_of(world.url, world.one) as judge:
                    assert [one for one in judge.broken() if one.startswith("I9: more")] == []
                for one in found:
                    complete(world, one)
                done += len(found)
                if not found and not any(states(world, jobs)):
                    break
        return done

    with ThreadPoolExecutor(3) as threads:
        assert sum(threads.map(work, range(3))) == len(jobs)


def test_ends_of_many_keys_occupy_no_shared_lock(world: ExampleInstallation) -> None:
    jobs = [world.enqueue(WORK, concurrency_key=f"key {n}") for n in range(20)]
    assert len(claim(world, 20)) == 20
    with world.admin.transaction():
        world.admin.execute("DELETE FROM turno.tickets WHERE job_id = ANY (%s)", (jobs,))
        locks = "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype IN ('advisory', 'tuple')"
        assert world.admin.execute(locks).fetchone() == (0,)
        raise psycopg.Rollback


def test_locked_key_of_a_tenant_delays_no_tenant(world: ExampleInstallation) -> None:
    """An open transaction holds more keys of its tenant than one promotion reads."""
    held = [world.enqueue(WORK, concurrency_key=f"key {n}") for n in range(3)]
    assert len(claim(world)) == 3
    waiting = [world.enqueue(WORK, concurrency_key=f"key {n}") for n in range(3)]
    with world.admin.transaction():
        world.admin.execute("DELETE FROM turno.tickets WHERE job_id = ANY (%s)", (held,))
        line(world, 1, tenant=world.other)
        for _ in range(3):
            world.engine.promote(2)
        assert [one.login.slug for one in claim(world)] == ["suc0002"]
        assert states(world, waiting) == ["waiting"] * 3
        raise psycopg.Rollback
    assert states(world, waiting) == ["waiting"] * 3


def test_unused_keys_are_pruned_and_used_ones_stay(world: ExampleInstallation) -> None:
    used = line(world, 2)
    (free,) = line(world, 1, "printer 4")
    for one in claim(world):
        if one.job_id == free:
            complete(world, one)
    world.engine.prune(timedelta(days=2), timedelta(days=30), 1000)
    assert world.rows("SELECT key FROM turno.key_locks") == [{"key": "printer 3"}]
    line(world, 1, "printer 4")
    assert states(world, used) == ["running", "waiting"]
    assert len(claim(world)) == 1


def test_waiting_job_names_its_obstacle(world: ExampleInstallation) -> None:
    jobs = line(world, 2)
    claim(world)
    found = [world.rows("SELECT job_lacks(%s) AS lacks", job)[0]["lacks"] for job in jobs]
    assert found == [None, "key"]
    assert "go before it" in lacking("key", job_type="batch_invoicing", version=1, queue="cold")


def test_a_paused_tenants_key_waits_with_it(world: ExampleInstallation) -> None:
    jobs = line(world, 2)
    world.rows("UPDATE turno.tenants SET paused_at = now() WHERE slug = 'suc0001'")
    try:
        assert claim(world) == []
    finally:
        world.rows("UPDATE turno.tenants SET paused_at = NULL")
    assert [one.job_id for one in claim(world)] == jobs[:1]


def test_a_retried_job_takes_its_turn_under_its_key(world: ExampleInstallation) -> None:
    first, second = line(world, 2)
    assert world.cancel(first) == "cancelled"
    again = world.retry(first)["job_id"]
    assert [one.job_id for one in claim(world)] == [second]
    assert states(world, [again]) == ["waiting"]


def test_a_repaired_ticket_has_its_key(world: ExampleInstallation) -> None:
    jobs = line(world, 2)
    claim(world)
    world.rows("DELETE FROM turno.tickets WHERE state = 'waiting'")
    world.rows("SELECT job_repair('exec')")
    assert claim(world) == []
    assert states(world, jobs) == ["running", "waiting"]


def test_job_waiting_for_its_key_costs_a_claim_nothing(world: ExampleInstallation) -> None:
    """A waiting ticket is in none of the indexes that a claim reads."""
    world.admin.execute("VACUUM turno.tickets")  # index entries of the tests before, which a claim reads
    world.rows(
        """
        INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend,
                                   concurrency_key)
        SELECT gen_random_uuid(), id, 'cold', 'batch_invoicing', 1, 1, now() - interval '1 h', 'waiting', 'exec', 'k'
        FROM turno.tenants, generate_series(1, 2000) WHERE slug = 'suc0001'
        """
    )
    try:
        free = world.enqueue(WORK)
        own = worker(world)
        claimer = claiming.claimer(queues=["cold"], types=TYPES, backend="exec")
        with world.engine.transaction():
            before = world.engine.value(INDEX_ENTRIES_READ)
            ((one,),) = claimer.claim(world.engine, own, slots=1)
            read = world.engine.value(INDEX_ENTRIES_READ) - before
        assert one.job_id == free
        assert read < 50
    finally:
        world.rows("DELETE FROM turno.tickets WHERE state = 'waiting'")
