"""Which ticket is taken next, and that each is taken once."""

import math
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from tests import claiming
from tests.installation import ExampleInstallation
from turno.jobs.job import Claim, Priority
from turno.store.engine.claims import Claimer
from turno.store.engine.engine import Engine
from turno.tenancy.identity.session import service_session
from turno.testing.wait import wait_until


def worker(example: ExampleInstallation) -> UUID:
    return example.engine.start_worker(backend="exec", host="test", pid=1)


def claim(
    example: ExampleInstallation, slots: int, *, types: tuple[tuple[str, int], ...] = (("batch_invoicing", 1),)
) -> list[Claim]:
    return claiming.claim(example.engine, worker(example), queues=["cold"], types=types, backend="exec", slots=slots)


def test_tenants_take_turns_despite_any_backlog(example: ExampleInstallation) -> None:
    for _ in range(20):
        example.enqueue({"order_ids": [1]})
    for _ in range(4):
        example.enqueue({"order_ids": [1]}, tenant=example.other)
    taken = claim(example, 6)
    assert Counter(claimed.login.slug for claimed in taken) == {"suc0001": 3, "suc0002": 3}


def test_a_lone_tenant_may_use_every_slot(example: ExampleInstallation) -> None:
    for _ in range(5):
        example.enqueue({"order_ids": [1]})
    assert len(claim(example, 8)) == 5


def test_the_oldest_of_a_band_first(example: ExampleInstallation) -> None:
    """Over the bands there is chance in it: one claim in eight takes the oldest of all."""
    jobs = [example.enqueue({"order_ids": [1]}, priority=Priority.LOW) for _ in range(4)]
    assert [claimed.job_id for claimed in claim(example, 4)] == jobs


def test_a_future_job_is_not_taken_before_its_time(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"order_ids": [1]}, run_at=datetime.now(UTC) + timedelta(hours=1))
    assert claim(example, 1) == []
    assert example.engine.claim_job(worker(example), job_id, types=[("batch_invoicing", 1)]) is None
    example.time_passes()
    assert [claimed.job_id for claimed in claim(example, 1)] == [job_id]


def test_empty_claim_returns_the_next_due_time(example: ExampleInstallation) -> None:
    claimer = Claimer(backend="exec", queues=["cold"], types=[("batch_invoicing", 1)])
    far = example.enqueue({"order_ids": [1]}, run_at=datetime.now(UTC) + timedelta(hours=1))
    example.rows("UPDATE turno.tickets SET run_at = 'infinity' WHERE job_id = %s", far)
    busy = worker(example)
    assert claimer.claim(example.engine, busy, slots=1) == []
    assert claimer.due_in == math.inf
    example.enqueue({"order_ids": [1]}, run_at=datetime.now(UTC) + timedelta(seconds=2.5))
    assert claimer.claim(example.engine, busy, slots=1) == []
    assert 0 < claimer.due_in < 2.6


@pytest.mark.parametrize("silent", [True, False], ids=["after a silence", "while there is work"])
def test_due_job_comes_first_only_while_there_is_work(example: ExampleInstallation, *, silent: bool) -> None:
    """A job that comes into a silence does not wait for the look for due jobs."""
    moments = iter(range(100))  # the look is due at each of them
    claimer = Claimer(backend="exec", queues=["cold"], types=[("batch_invoicing", 1)], clock=lambda: next(moments))
    busy = worker(example)
    if not silent:
        example.enqueue({"order_ids": [1]})
    assert len(claimer.claim(example.engine, busy, slots=1)) == (0 if silent else 1)
    now = example.enqueue({"order_ids": [1]}, priority=Priority.LOW)
    due = example.enqueue({"order_ids": [1]}, run_at=datetime.now(UTC) + timedelta(hours=1), priority=Priority.URGENT)
    example.time_passes()
    claimed = [taken for _ in range(2) for batch in claimer.claim(example.engine, busy, slots=1) for taken in batch]
    assert [taken.job_id for taken in claimed] == ([now, due] if silent else [due, now])


def test_type_without_a_handler_is_left_alone(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    assert claim(example, 1, types=(("other", 1),)) == []
    assert example.engine.claim_job(worker(example), job_id, types=[("other", 1)]) is None
    ticket = example.ticket(job_id)
    assert ticket is not None
    assert ticket["state"] == "ready"


def test_paused_tenant_waits_alone(example: ExampleInstallation) -> None:
    paused = example.enqueue({"order_ids": [1]})
    other = example.enqueue({"order_ids": [1]}, tenant=example.other)
    example.rows("UPDATE turno.tenants SET paused_at = now() WHERE slug = 'suc0001'")
    try:
        assert example.engine.claim_job(worker(example), paused, types=[("batch_invoicing", 1)]) is None
        assert [claimed.job_id for claimed in claim(example, 4)] == [other]
    finally:
        example.rows("UPDATE turno.tenants SET paused_at = NULL")
    assert [claimed.job_id for claimed in claim(example, 4)] == [paused]


def test_a_tenant_that_is_not_active_is_left_alone(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    example.rows("UPDATE turno.tenants SET state = 'removed' WHERE slug = 'suc0001'")
    try:
        assert example.engine.claim_job(worker(example), job_id, types=[("batch_invoicing", 1)]) is None
        assert claim(example, 4) == []
    finally:
        example.rows("UPDATE turno.tenants SET state = 'active'")


def test_a_claimed_ticket_is_not_taken_again(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    assert len(claim(example, 1)) == 1
    before = example.ticket(job_id)
    assert example.engine.claim_job(worker(example), job_id, types=[("batch_invoicing", 1)]) is None
    assert claim(example, 4) == []
    assert example.ticket(job_id) == before


@pytest.mark.parametrize("run_at", [None, datetime(2100, 1, 1, tzinfo=UTC)], ids=["ready", "due"])
def test_locked_ticket_is_skipped(example: ExampleInstallation, run_at: datetime | None) -> None:
    """A cancellation or another claimer has it; no claimer waits for that."""
    locked, free = (example.enqueue({"order_ids": [1]}, run_at=run_at) for _ in range(2))
    example.time_passes()
    with example.admin.transaction():
        example.admin.execute("SELECT FROM turno.tickets WHERE job_id = %s FOR UPDATE", (locked,))
        assert [taken.job_id for taken in claim(example, 2)] == [free]


def test_tenant_emptied_by_other_claims_is_passed(example: ExampleInstallation) -> None:
    locked, free = example.enqueue({"order_ids": [1]}), example.enqueue({"order_ids": [1]}, tenant=example.other)
    with example.admin.transaction():
        example.admin.execute("SELECT FROM turno.tickets WHERE job_id = %s FOR UPDATE", (locked,))
        claimer = claiming.claimer(queues=["cold"], types=[("batch_invoicing", 1)], backend="exec")
        claimer._memory.tenant = example.one.id
        assert [
            [claimed.job_id for claimed in batch] for batch in claimer.claim(example.engine, worker(example), slots=1)
        ] == [[free]]


def test_a_ticket_that_is_being_claimed_is_not_claimed_again(example: ExampleInstallation) -> None:
    """The second claimer neither takes it nor waits to see whether the first one keeps it."""
    example.enqueue({"order_ids": [1]})
    others_worker = worker(example)

    def second_claim() -> list[Claim]:
        with Engine.on(service_session(example.logins, example.logins.engine, application="second")) as engine:
            return claiming.claim(
                engine, others_worker, queues=["cold"], types=[("batch_invoicing", 1)], backend="exec", slots=1
            )

    waits = "SELECT FROM pg_stat_activity WHERE application_name = 'second' AND wait_event_type = 'Lock'"
    with ThreadPoolExecutor(1) as pool:
        with example.engine.transaction():
            assert len(claim(example, 1)) == 1
            second = pool.submit(second_claim)
            assert wait_until(lambda: second.done() or bool(example.admin.execute(waits).fetchall()), within=20)
            done = second.done()
        assert (done, second.result()) == (True, [])


def test_eight_claimers_never_take_the_same_ticket(example: ExampleInstallation) -> None:
    jobs = {
        example.enqueue({"order_ids": [1]}, tenant=tenant) for tenant in example.tenants.values() for _ in range(100)
    }

    def drain(_: int) -> list[UUID]:
        mine: list[UUID] = []
        with Engine.on(service_session(example.logins, example.logins.engine, application="test")) as engine:
            me = engine.start_worker(backend="exec", host="test", pid=1)
            while claims := claiming.claim(
                engine, me, queues=["cold"], types=[("batch_invoicing", 1)], backend="exec", slots=3
            ):
                mine += [claimed.job_id for claimed in claims]
        return mine

    with ThreadPoolExecutor(8) as pool:
        taken = [job for mine in pool.map(drain, range(8)) for job in mine]
    assert len(taken) == len(set(taken))
    # A claimer that skipped tickets with another's lock may have left early; nothing is lost by it.
    taken += [claimed.job_id for claimed in claim(example, 200)]
    assert set(taken) == jobs
