"""From the fastest test to the most honest one."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from shop_handlers import ImportCustomers, Remind

from turno.errors import InvalidPayload
from turno.servers.wait import wait_until
from turno.testing.checker import Checker
from turno.testing.clock import FrozenClock
from turno.testing.installation import Installation
from turno.testing.leak_detector import LeakDetector
from turno.testing.processes import children, kill, resume, stop

FIVE = {"names": ["Ana", "Bea", "Ciro", "Dora", "Eva"]}
EFFECTS = {
    "I3: a customer is there and its item is not done": """
        SELECT c.id FROM customers c LEFT JOIN background_job_items i
        ON i.job_id::text = c.address AND i.key = c.id AND i.state = 'done' WHERE i.key IS NULL
    """
}


# Inline: the logic alone ------------------------------------------------------------------


def test_every_customer_is_entered(world: Installation) -> None:
    assert world.run(ImportCustomers, FIVE) == {"entered": 5, "failed": 0}
    assert len(world.rows("SELECT id FROM customers")) == 5


def test_what_the_door_refuses_is_refused(world: Installation) -> None:
    with pytest.raises(InvalidPayload):
        world.run(ImportCustomers, {"names": []})


# Drain: real jobs, in this process --------------------------------------------------------


def test_a_name_used_twice_fails_alone(world: Installation) -> None:
    world.enqueue({"names": ["Ana"]}, handler=ImportCustomers)
    world.enqueue(FIVE, handler=ImportCustomers)
    assert world.drain() == {"completed": 2}
    _, second = world.enqueued(ImportCustomers)
    assert second["result"] == {"entered": 4, "failed": 1}
    assert world.enqueued(ImportCustomers, names=["Eva"]) == [second]


def test_a_reminder_is_sent_in_the_end(world: Installation) -> None:
    job_id = world.enqueue({"customer": "Ana"}, handler=Remind)
    assert world.drain(scheduled=True) == {"pending": 2, "completed": 1}
    assert world.job(job_id)["result"] == {"reminded": "Ana"}


# Time travel: the database's clock stands until it is told to advance ------------------------


def test_a_reminder_waits_as_long_as_it_should(world: Installation, clock: FrozenClock) -> None:
    job_id = world.enqueue({"customer": "Ana"}, handler=Remind)
    failed = world.attempt(job_id)
    assert failed["run_at"] - clock.now == timedelta(seconds=5)
    assert world.drain() == {}
    clock.advance(seconds=5)
    assert world.drain() == {"pending": 1}
    clock.advance(minutes=59)
    assert world.drain() == {}
    clock.advance(minutes=1)
    assert world.drain() == {"completed": 1}


# Crash points: a real worker, killed at a named step --------------------------------------------


@pytest.mark.parametrize("step", ["started", "chunk_recorded", "chunk_committed", "completing", "completed"])
def test_a_kill_at_any_step_enters_each_customer_once(world: Installation, step: str) -> None:
    checker = Checker(world.url, world.tenants.values(), effects=EFFECTS)
    job_id = world.enqueue(FIVE, handler=ImportCustomers)
    world.work(job_id, crash_at=step)
    assert checker.violations() == []
    world.time_passes()
    world.work(job_id)
    assert world.job(job_id)["result"] == {"entered": 5, "failed": 0}
    assert checker.violations(settled=True) == []


# Process control ----------------------------------------------------------------------------------


def test_a_child_that_is_killed_is_noticed_at_once(world: Installation, checker: Checker) -> None:
    world.backend = "pool"
    pool = world.start_pool(POOL_MAX_CHILDREN="1", POOL_MIN_CHILDREN="1")
    assert wait_until(lambda: children(pool.pid) != [], within=20)
    (before,) = stop(*children(pool.pid))
    job_id = world.enqueue(FIVE, handler=ImportCustomers)
    kill(before)
    resume(before)
    assert wait_until(lambda: world.job(job_id)["status"] == "completed", within=20)
    world.stop_workers()
    assert checker.violations() == []


# Leaks: no tenant's canary sings anywhere else ---------------------------------------------------------


def test_no_customer_is_seen_next_door(world: Installation, leak_detector: LeakDetector) -> None:
    for tenant in world.tenants.values():
        job_id = world.enqueue({"names": [leak_detector.of(tenant)]}, handler=ImportCustomers, tenant=tenant)
        leak_detector.heard(world.work(job_id))  # the log is everybody's
        leak_detector.heard(json.dumps(world.job(job_id, tenant=tenant), default=str), by=tenant)
    assert leak_detector.leaks() == []
