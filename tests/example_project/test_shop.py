"""From the fastest test to the most honest one."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from shop_handlers import ImportCustomers, Remind

from turno.errors import InvalidPayload
from turno.testing.checker import Checker
from turno.testing.clock import FrozenClock
from turno.testing.installation import Installation
from turno.testing.leak_detector import LeakDetector
from turno.testing.processes import children, kill, resume, stop
from turno.testing.wait import wait_until

FIVE = {"names": ["Ana", "Bea", "Ciro", "Dora", "Eva"]}
EFFECTS = {
    "I3: a customer is there and its item is not done": """
        SELECT c.id FROM customers c LEFT JOIN background_job_items i
        ON i.job_id::text = c.address AND i.key = c.id AND i.state = 'done' WHERE i.key IS NULL
    """
}


# Inline: the logic alone ------------------------------------------------------------------


def test_every_customer_is_entered(turno: Installation) -> None:
    assert turno.run(ImportCustomers, FIVE) == {"entered": 5, "failed": 0}
    assert len(turno.rows("SELECT id FROM customers")) == 5


def test_invalid_submission_is_refused(turno: Installation) -> None:
    with pytest.raises(InvalidPayload):
        turno.run(ImportCustomers, {"names": []})


# Drain: real jobs, in this process --------------------------------------------------------


def test_a_name_used_twice_fails_alone(turno: Installation) -> None:
    turno.enqueue({"names": ["Ana"]}, handler=ImportCustomers)
    turno.enqueue(FIVE, handler=ImportCustomers)
    assert turno.drain() == {"completed": 2}
    _, second = turno.enqueued(ImportCustomers)
    assert second["result"] == {"entered": 4, "failed": 1}
    assert turno.enqueued(ImportCustomers, names=["Eva"]) == [second]


def test_a_reminder_is_sent_in_the_end(turno: Installation) -> None:
    job_id = turno.enqueue({"customer": "Ana"}, handler=Remind)
    assert turno.drain(scheduled=True) == {"pending": 2, "completed": 1}
    assert turno.job(job_id)["result"] == {"reminded": "Ana"}


# Time travel: a test advances the database's clock ------------------------


def test_a_reminder_waits_as_long_as_it_should(turno: Installation, turno_clock: FrozenClock) -> None:
    job_id = turno.enqueue({"customer": "Ana"}, handler=Remind)
    failed = turno.attempt(job_id)
    assert failed["run_at"] - turno_clock.now == timedelta(seconds=5)
    assert turno.drain() == {}
    turno_clock.advance(seconds=5)
    assert turno.drain() == {"pending": 1}
    turno_clock.advance(minutes=59)
    assert turno.drain() == {}
    turno_clock.advance(minutes=1)
    assert turno.drain() == {"completed": 1}


# Crash points: a real worker, killed at a named step --------------------------------------------


@pytest.mark.parametrize("step", ["started", "chunk_recorded", "chunk_committed", "completing", "completed"])
def test_a_kill_at_any_step_enters_each_customer_once(turno: Installation, step: str) -> None:
    checker = Checker(turno.url, turno.tenants.values(), effects=EFFECTS)
    job_id = turno.enqueue(FIVE, handler=ImportCustomers)
    turno.work(job_id, crash_at=step)
    assert checker.violations() == []
    turno.time_passes()
    turno.work(job_id)
    assert turno.job(job_id)["result"] == {"entered": 5, "failed": 0}
    assert checker.violations(settled=True) == []


# Process control ----------------------------------------------------------------------------------


def test_a_child_that_is_killed_is_noticed_at_once(turno: Installation, turno_checker: Checker) -> None:
    turno.backend = "pool"
    pool = turno.start_pool(TURNO_MAX_CHILDREN="1", TURNO_MIN_CHILDREN="1")
    assert wait_until(lambda: children(pool.pid) != [], within=20)
    (before,) = stop(*children(pool.pid))
    job_id = turno.enqueue(FIVE, handler=ImportCustomers)
    kill(before)
    resume(before)
    assert wait_until(lambda: turno.job(job_id)["status"] == "completed", within=20)
    turno.stop_workers()
    assert turno_checker.violations() == []


# Leaks: no tenant's marker is found anywhere else ------------------------------------------------


def test_no_customer_is_seen_next_door(turno: Installation, turno_leaks: LeakDetector) -> None:
    for tenant in turno.tenants.values():
        job_id = turno.enqueue({"names": [turno_leaks.marker_of(tenant)]}, handler=ImportCustomers, tenant=tenant)
        turno_leaks.seen(turno.work(job_id))  # the log is shared
        turno_leaks.seen(json.dumps(turno.job(job_id, tenant=tenant), default=str), by=tenant)
    assert turno_leaks.leaks() == []
