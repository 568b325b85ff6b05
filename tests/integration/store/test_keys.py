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
def judged(example: ExampleInstallation) -> Iterator[None]:
    """No test breaks an invariant of keys."""
    yield
    with judge_of(example.url, example.one) as judge:
        assert judge.broken() == []
    rule(example)


def rule(example: ExampleInstallation, limit: int | None = None, rate: int | None = None, period: float = 60) -> None:
    example.rows(
        "UPDATE turno.handlers SET key_limit = %s, key_rate = %s, key_period = %s WHERE type = 'batch_invoicing'",
        limit, rate, period if rate else None,
    )  # fmt: skip


def line(example: ExampleInstallation, length: int, key: str = "printer 3", **options: Any) -> list[UUID]:
    return [example.enqueue(WORK, concurrency_key=key, **options) for _ in range(length)]


def states(example: ExampleInstallation, jobs: list[UUID]) -> list[str | None]:
    result = [example.ticket(job) for job in jobs]
    return [row["state"] if row else None for row in result]


def worker(example: ExampleInstallation) -> UUID:
    return example.engine.start_worker(backend="exec", host="test", pid=1)


def claim(example: ExampleInstallation, slots: int = 10) -> list[Claim]:
    return claiming.claim(example.engine, worker(example), queues=["cold"], types=TYPES, backend="exec", slots=slots)


@contextmanager
def at_work(example: ExampleInstallation, claimed: Claim) -> Iterator[HandlerConnection]:
    session = handler_session(example.logins, claimed.login, application="test", kind=HandlerConnection)
    try:
        yield session
    finally:
        psycopg.Connection.close(session)


def complete(example: ExampleInstallation, claimed: Claim) -> None:
    with at_work(example, claimed) as session:
        attempt_steps.begin(session)
        attempt_steps.complete(session, claimed, "{}")
        psycopg.Connection.commit(session)


def test_one_of_a_key_runs_and_its_end_lets_the_next_one(example: ExampleInstallation) -> None:
    jobs = line(example, 3)
    free = example.enqueue(WORK)
    for turn in range(3):
        taken = claim(example)
        assert {claimed.job_id for claimed in taken} == {jobs[turn], *([free] if turn == 0 else [])}
        assert states(example, jobs[turn:]) == ["running", *["waiting"] * (2 - turn)]
        for claimed in taken:
            complete(example, claimed)
        # In the transaction of the end: no promotion has run since.
        assert states(example, jobs[turn + 1 :]) == ["ready", "waiting"][: 2 - turn]


def _cancelled(example: ExampleInstallation, claimed: Claim) -> None:
    example.engine.unclaim(claimed.job_id, claimed.token, NOW)
    assert states(example, [claimed.job_id]) == ["ready"]  # it has kept its place
    assert example.cancel(claimed.job_id) == "cancelled"


def _expired(example: ExampleInstallation, claimed: Claim) -> None:
    example.engine.unclaim(claimed.job_id, claimed.token, NOW)
    example.rows("UPDATE background_jobs SET expires_at = clock_timestamp() WHERE id = %s", claimed.job_id)
    assert example.engine.expire(example.one.schema) == 1


def _rescued(example: ExampleInstallation, claimed: Claim) -> None:
    schema = claimed.login.schema
    example.engine.rescue(schema, claimed.job_id, claimed.token, cause="killed", retry_in=NOW, counted=True)


def _put_off(example: ExampleInstallation, claimed: Claim) -> None:
    example.engine.unclaim(claimed.job_id, claimed.token, timedelta(minutes=1))
    example.rows(
        "UPDATE background_jobs j SET run_at = t.run_at FROM turno.tickets t WHERE t.job_id = j.id AND j.id = %s",
        claimed.job_id,
    )


def _failed(again: timedelta | None) -> Callable[[ExampleInstallation, Claim], None]:
    def fail(example: ExampleInstallation, claimed: Claim) -> None:
        with at_work(example, claimed) as session:
            attempt_steps.start(session, claimed, "test")
            attempt_steps.fail(session, claimed, "error", {"class": "Oops"}, again)

    return fail


def _reordered(example: ExampleInstallation, claimed: Claim) -> None:
    example.engine.unclaim(claimed.job_id, claimed.token, NOW)
    later = datetime.now(UTC) + timedelta(hours=1)
    example.rows("SELECT job_reorder(%s, NULL, %s)", claimed.job_id, later)


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
    example: ExampleInstallation, end: Callable[[ExampleInstallation, Claim], None]
) -> None:
    first, second = line(example, 2)
    (claimed,) = claim(example)
    end(example, claimed)
    assert states(example, [second]) == ["ready"]
    assert states(example, [first]) in (["scheduled"], [None])
    assert [two.job_id for two in claim(example)] == [second]


def test_so_many_of_a_key_run_at_once(example: ExampleInstallation) -> None:
    rule(example, limit=3)
    jobs = line(example, 5)
    taken = claim(example)
    assert len(taken) == 3
    complete(example, taken[0])
    assert Counter(states(example, jobs)) == {"running": 2, "ready": 1, "waiting": 1, None: 1}


def test_another_tenants_key_of_the_same_name_is_another(example: ExampleInstallation) -> None:
    line(example, 2)
    line(example, 2, tenant=example.other)
    assert Counter(claimed.login.slug for claimed in claim(example)) == {"suc0001": 1, "suc0002": 1}


def test_the_best_band_of_a_key_goes_first(example: ExampleInstallation) -> None:
    normal, other = line(example, 2)
    (urgent,) = line(example, 1, priority=Priority.URGENT)
    (low,) = line(example, 1, priority=Priority.LOW)
    order = []
    for _ in range(4):
        (claimed,) = claim(example)
        order.append(claimed.job_id)
        complete(example, claimed)
    assert order == [urgent, normal, other, low]


def test_so_many_of_a_key_begin_in_a_period(example: ExampleInstallation) -> None:
    rule(example, rate=2)
    jobs = line(example, 4)
    first = claim(example)
    assert [claimed.job_id for claimed in first] == jobs[:2]
    for claimed in first:
        complete(example, claimed)
    assert claim(example) == []
    # One of the two was begun longer ago than that.
    example.rows(
        "UPDATE turno.key_looks SET at = clock_timestamp() WHERE ctid = (SELECT min(ctid) FROM turno.key_looks)"
    )
    assert [claimed.job_id for claimed in claim(example)] == jobs[2:3]
    assert claim(example) == []
    example.rows("UPDATE turno.key_looks SET at = clock_timestamp()")
    assert [claimed.job_id for claimed in claim(example)] == jobs[3:]


def test_a_job_that_was_let_run_has_its_start_in_reserve(example: ExampleInstallation) -> None:
    """Workers that come back after an hour do not begin at once the jobs promoted in the meantime."""
    rule(example, rate=2)
    jobs = line(example, 6)
    for _ in range(3):
        example.engine.promote(100)
        assert Counter(states(example, jobs)) == {"ready": 2, "waiting": 4}


def test_idle_worker_looks_when_the_next_of_a_key_may_run(example: ExampleInstallation) -> None:
    rule(example, rate=1, period=2.5)
    claimer = Claimer(backend="exec", queues=["cold"], types=TYPES, clock=lambda: 1000.0)
    own = worker(example)
    assert claimer.claim(example.engine, own, slots=1) == []  # and promoted: the next promotion is for 0.1 s later
    jobs = line(example, 2)
    assert claimer.claim(example.engine, own, slots=1) == []
    assert claimer.due_in == pytest.approx(0.1)
    assert [claimed.job_id for claimed in claim(example)] == jobs[:1]
    assert claimer.claim(example.engine, own, slots=1) == []
    assert 1 < claimer.due_in < 2.6


def test_neither_an_enqueue_nor_an_end_waits_for_a_key(example: ExampleInstallation) -> None:
    """Two ends at once: a transaction that does not see its counterpart leaves a mark for the next promotion."""
    rule(example, limit=2)
    jobs = line(example, 4)
    first, second = claim(example)
    with at_work(example, first) as slow:
        slow.execute("SET lock_timeout = '1s'")
        attempt_steps.begin(slow)
        attempt_steps.complete(slow, first, "{}")
        complete(example, second)
        jobs += line(example, 1)
        example.engine.promote(100)
        assert Counter(states(example, jobs)) == {"running": 1, "waiting": 3, None: 1}
        psycopg.Connection.commit(slow)
    assert Counter(states(example, jobs)) == {"ready": 1, "waiting": 2, None: 2}
    example.engine.promote(100)
    assert Counter(states(example, jobs)) == {"ready": 2, "waiting": 1, None: 2}


def test_two_that_look_at_once_let_no_more_than_may_run(example: ExampleInstallation) -> None:
    """An end and a promotion: neither sees the jobs of its counterpart, so one of them leaves them to a later look."""
    first, second = line(example, 2)
    (claimed,) = claim(example)
    rule(example, limit=2)
    example.rows("INSERT INTO turno.key_looks VALUES (%s, 'printer 3', clock_timestamp(), false)", example.one.id)
    with (
        Engine.on(service_session(example.logins, example.logins.engine, application="test")) as engine,
        engine.transaction(),
    ):
        assert engine.promote(100) == 1
        urgent = line(example, 2, priority=Priority.URGENT)
        example.rows("UPDATE turno.tickets SET state = 'waiting' WHERE state = 'scheduled'")
        complete(example, claimed)
        assert states(example, urgent) == ["waiting", "waiting"]
    assert states(example, [first, second, *urgent]) == [None, "ready", "waiting", "waiting"]
    example.engine.promote(100)
    assert states(example, [first, second, *urgent]) == [None, "ready", "ready", "waiting"]


def test_rolled_back_end_lets_no_job_run(example: ExampleInstallation) -> None:
    jobs = line(example, 2)
    (claimed,) = claim(example)
    with at_work(example, claimed) as session:
        attempt_steps.begin(session)
        attempt_steps.complete(session, claimed, "{}")
        psycopg.Connection.rollback(session)
    assert states(example, jobs) == ["running", "waiting"]


def test_locked_waiting_job_is_not_forgotten(example: ExampleInstallation) -> None:
    first, second = line(example, 2)
    (claimed,) = claim(example)
    with example.admin.transaction():
        example.admin.execute("SELECT FROM turno.tickets WHERE job_id = %s FOR UPDATE", (second,))
        complete(example, claimed)
    assert states(example, [first, second]) == [None, "waiting"]
    example.engine.promote(100)
    assert states(example, [second]) == ["ready"]


def test_old_snapshot_lets_no_job_run(example: ExampleInstallation) -> None:
    jobs = line(example, 2)
    (claimed,) = claim(example)
    with example.admin.transaction():
        example.admin.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        example.admin.execute("DELETE FROM turno.tickets WHERE job_id = %s", (claimed.job_id,))
        assert states(example, jobs[1:]) == ["waiting"]
    example.engine.promote(100)
    assert states(example, jobs[1:]) == ["ready"]
    example.rows("SELECT job_repair('exec')")


def test_a_hint_at_a_job_lets_it_run_if_it_is_next(example: ExampleInstallation) -> None:
    first, second = line(example, 2)
    assert example.engine.claim_job(worker(example), second, types=TYPES) is not None
    assert example.engine.claim_job(worker(example), first, types=TYPES) is None


def test_many_claim_and_end_at_once_and_never_two_of_a_key(example: ExampleInstallation) -> None:
    rule(example, limit=2)
    jobs = [job for key in "abc" for job in line(example, 8, key)]

    def work(_: int) -> int:
        done = 0
        with Engine.on(service_session(example.logins, example.logins.engine, application="test")) as engine:
            own = engine.start_worker(backend="exec", host="test", pid=1)
            for _ in range(200):
                result = claiming.claim(engine, own, queues=["cold"], types=TYPES, backend="exec", slots=3)
                with judge_of(example.url, example.one) as judge:
                    assert [violation for violation in judge.broken() if violation.startswith("I9: more")] == []
                for claimed in result:
                    complete(example, claimed)
                done += len(result)
                if not result and not any(states(example, jobs)):
                    break
        return done

    with ThreadPoolExecutor(3) as threads:
        assert sum(threads.map(work, range(3))) == len(jobs)


def test_ends_of_many_keys_occupy_no_shared_lock(example: ExampleInstallation) -> None:
    jobs = [example.enqueue(WORK, concurrency_key=f"key {n}") for n in range(20)]
    assert len(claim(example, 20)) == 20
    with example.admin.transaction():
        example.admin.execute("DELETE FROM turno.tickets WHERE job_id = ANY (%s)", (jobs,))
        locks = "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype IN ('advisory', 'tuple')"
        assert example.admin.execute(locks).fetchone() == (0,)
        raise psycopg.Rollback


def test_locked_key_of_a_tenant_delays_no_tenant(example: ExampleInstallation) -> None:
    """An open transaction holds more keys of its tenant than one promotion reads."""
    locked_jobs = [example.enqueue(WORK, concurrency_key=f"key {n}") for n in range(3)]
    assert len(claim(example)) == 3
    waiting = [example.enqueue(WORK, concurrency_key=f"key {n}") for n in range(3)]
    with example.admin.transaction():
        example.admin.execute("DELETE FROM turno.tickets WHERE job_id = ANY (%s)", (locked_jobs,))
        line(example, 1, tenant=example.other)
        for _ in range(3):
            example.engine.promote(2)
        assert [claimed.login.slug for claimed in claim(example)] == ["suc0002"]
        assert states(example, waiting) == ["waiting"] * 3
        raise psycopg.Rollback
    assert states(example, waiting) == ["waiting"] * 3


def test_unused_keys_are_pruned_and_used_ones_stay(example: ExampleInstallation) -> None:
    used = line(example, 2)
    (free,) = line(example, 1, "printer 4")
    for claimed in claim(example):
        if claimed.job_id == free:
            complete(example, claimed)
    example.engine.prune(timedelta(days=2), timedelta(days=30), 1000)
    assert example.rows("SELECT key FROM turno.key_locks") == [{"key": "printer 3"}]
    line(example, 1, "printer 4")
    assert states(example, used) == ["running", "waiting"]
    assert len(claim(example)) == 1


def test_waiting_job_names_its_obstacle(example: ExampleInstallation) -> None:
    jobs = line(example, 2)
    claim(example)
    result = [example.rows("SELECT job_lacks(%s) AS lacks", job)[0]["lacks"] for job in jobs]
    assert result == [None, "key"]
    assert "go before it" in lacking("key", job_type="batch_invoicing", version=1, queue="cold")


def test_a_paused_tenants_key_waits_with_it(example: ExampleInstallation) -> None:
    jobs = line(example, 2)
    example.rows("UPDATE turno.tenants SET paused_at = now() WHERE slug = 'suc0001'")
    try:
        assert claim(example) == []
    finally:
        example.rows("UPDATE turno.tenants SET paused_at = NULL")
    assert [claimed.job_id for claimed in claim(example)] == jobs[:1]


def test_a_retried_job_takes_its_turn_under_its_key(example: ExampleInstallation) -> None:
    first, second = line(example, 2)
    assert example.cancel(first) == "cancelled"
    again = example.retry(first)["job_id"]
    assert [claimed.job_id for claimed in claim(example)] == [second]
    assert states(example, [again]) == ["waiting"]


def test_a_repaired_ticket_has_its_key(example: ExampleInstallation) -> None:
    jobs = line(example, 2)
    claim(example)
    example.rows("DELETE FROM turno.tickets WHERE state = 'waiting'")
    example.rows("SELECT job_repair('exec')")
    assert claim(example) == []
    assert states(example, jobs) == ["running", "waiting"]


def test_job_waiting_for_its_key_costs_a_claim_nothing(example: ExampleInstallation) -> None:
    """A waiting ticket is in none of the indexes that a claim reads."""
    example.admin.execute("VACUUM turno.tickets")  # index entries of the tests before, which a claim reads
    example.rows(
        """
        INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend,
                                   concurrency_key)
        SELECT gen_random_uuid(), id, 'cold', 'batch_invoicing', 1, 1, now() - interval '1 h', 'waiting', 'exec', 'k'
        FROM turno.tenants, generate_series(1, 2000) WHERE slug = 'suc0001'
        """
    )
    try:
        free = example.enqueue(WORK)
        own = worker(example)
        claimer = claiming.claimer(queues=["cold"], types=TYPES, backend="exec")
        with example.engine.transaction():
            before = example.engine.value(INDEX_ENTRIES_READ)
            ((claimed,),) = claimer.claim(example.engine, own, slots=1)
            read = example.engine.value(INDEX_ENTRIES_READ) - before
        assert claimed.job_id == free
        assert read < 50
    finally:
        example.rows("DELETE FROM turno.tickets WHERE state = 'waiting'")
