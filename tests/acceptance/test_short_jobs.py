"""Short jobs come to a child in batches; each has the promises of a single job, and none waits long."""

from __future__ import annotations

import signal
from itertools import pairwise
from threading import Thread
from uuid import UUID

import pytest

from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import Faulty, FaultyHurried
from turno.testing.wait import wait_until
from turno.worker import crash_reasons

JOBS = 4
PATIENT = {"LONG": "60", "TURNO_MAX_CHILDREN": "1", "TURNO_MIN_CHILDREN": "1"}
IMPATIENT = PATIENT | {"LONG": "0.1"}


@pytest.fixture(autouse=True)
def generous_pool(example: ExampleInstallation) -> None:
    example.backend = "pool"
    example.registry = "tests.larger_batches:REGISTRY"


def enqueue_batch(example: ExampleInstallation, first: str, handler: type[Faulty] = Faulty) -> tuple[UUID, list[UUID]]:
    """Enqueue jobs that go to a child as one batch; the first job does this, and each further job returns its
    process."""
    first_job = example.enqueue({"how": first}, handler=handler)
    return first_job, [example.enqueue({"how": "pid"}, handler=handler) for _ in range(JOBS - 1)]


def statuses(example: ExampleInstallation, jobs: list[UUID]) -> set[str]:
    return {example.job(job_id)["status"] for job_id in jobs}


def running(example: ExampleInstallation, job_id: UUID) -> bool:
    return bool(example.job(job_id)["status"] == "running")


def test_each_job_of_a_batch_ends_separately(example: ExampleInstallation) -> None:
    first, others = enqueue_batch(example, "pid")
    example.start_pool(**PATIENT)
    assert wait_until(lambda: statuses(example, [first, *others]) == {"completed"}, within=30)
    jobs = [example.job(job_id) for job_id in (first, *others)]
    assert len({job["result"]["pid"] for job in jobs}) == 1
    assert {job["attempt"] for job in jobs} == {1}
    starts = example.rows("SELECT started_at, finished_at FROM background_job_attempts ORDER BY started_at")
    assert all(before["finished_at"] < after["started_at"] for before, after in pairwise(starts))


def test_dead_job_harms_no_neighbour(example: ExampleInstallation) -> None:
    dead, others = enqueue_batch(example, "kill_self")
    example.start_pool(**PATIENT)
    assert wait_until(lambda: statuses(example, others) == {"completed"}, within=30)
    assert wait_until(lambda: example.job(dead)["crashes"] > 0, within=30)
    assert {(job["attempt"], job["crashes"]) for job in map(example.job, others)} == {(1, 0)}


def test_death_at_the_end_of_a_job_harms_no_neighbour(example: ExampleInstallation) -> None:
    first, others = enqueue_batch(example, "pid")
    example.start_pool(
        TURNO_CRASH_AT="completed", TOGETHER="0", **PATIENT
    )  # each child, when the next is fetched already
    assert wait_until(lambda: statuses(example, [first, *others]) == {"completed"}, within=30)
    jobs = [example.job(job_id) for job_id in (first, *others)]
    assert {(job["attempt"], job["errors"], job["crashes"]) for job in jobs} == {(1, 0, 0)}


def test_worn_out_child_leaves_the_rest_of_its_batch(example: ExampleInstallation) -> None:
    first, others = enqueue_batch(example, "pid")
    example.start_pool(TURNO_LIMITS="child_jobs=1", **PATIENT)
    assert wait_until(lambda: statuses(example, [first, *others]) == {"completed"}, within=30)
    jobs = [example.job(job_id) for job_id in (first, *others)]
    assert len({job["result"]["pid"] for job in jobs}) == JOBS
    assert {job["attempt"] for job in jobs} == {1}


def test_overdue_job_harms_no_neighbour(example: ExampleInstallation) -> None:
    overdue, others = enqueue_batch(example, "loop_forever", FaultyHurried)
    example.start_pool(TURNO_SHUTDOWN_GRACE_SECONDS="0.6", **PATIENT)
    assert wait_until(lambda: statuses(example, others) == {"completed"}, within=30)
    assert {(job["attempt"], job["crashes"]) for job in map(example.job, others)} == {(1, 0)}
    assert wait_until(lambda: example.job(overdue)["finished_at"] is not None, within=30)
    assert example.job(overdue)["reason"] == "time limit of 1 s"


def test_behind_a_long_one_they_go_to_another_child(example: ExampleInstallation) -> None:
    long, others = enqueue_batch(example, "loop_forever")
    example.start_pool(**IMPATIENT | {"TURNO_MAX_CHILDREN": "2"})
    assert wait_until(lambda: statuses(example, others) == {"completed"}, within=30)
    assert running(example, long)
    assert {example.job(job_id)["attempt"] for job_id in others} == {1}


def test_behind_a_long_one_they_go_to_another_worker(example: ExampleInstallation) -> None:
    long, others = enqueue_batch(example, "loop_forever")
    pool = example.start_pool(**IMPATIENT, TURNO_LOG_LEVEL="DEBUG")
    given_back: list[str] = []
    reader = Thread(
        target=lambda: given_back.extend(line for line in pool.stdout or () if crash_reasons.NOT_STARTED in line)
    )
    reader.start()
    try:
        assert wait_until(lambda: len(given_back) == JOBS - 1, within=20)
        example.start_pool(**IMPATIENT)
        assert wait_until(lambda: statuses(example, others) == {"completed"}, within=30)
        assert running(example, long)
    finally:
        pool.kill()
        reader.join()
    assert {(job["errors"], job["crashes"]) for job in map(example.job, others)} == {(0, 0)}


def test_stopping_worker_gives_back_unbegun_jobs(example: ExampleInstallation) -> None:
    first, others = enqueue_batch(example, "wait_for_checkpoint_stop")
    pool = example.start_pool(**PATIENT)
    assert wait_until(lambda: running(example, first), within=30)
    pool.send_signal(signal.SIGTERM)
    log, _ = pool.communicate(timeout=20)
    assert pool.returncode == 0, log
    assert statuses(example, [first, *others]) == {"pending"}
    assert {(job["attempt"], job["errors"], job["crashes"]) for job in map(example.job, others)} == {(0, 0, 0)}
    assert {row["state"] for row in example.rows("SELECT state FROM turno.tickets")} == {"ready"}


def test_heartbeat_keeps_waiting_jobs_in_their_place(example: ExampleInstallation) -> None:
    first, others = enqueue_batch(example, "wait_for_cancel")
    example.start_pool(TURNO_HEARTBEAT_SECONDS="0.1", **PATIENT)
    assert wait_until(lambda: running(example, first), within=30)
    beats = "SELECT alive_at FROM turno.workers"
    assert len({example.rows(beats)[0]["alive_at"] for _ in range(5) if beat(example)}) == 5
    assert {example.job(job_id)["reason"] for job_id in others} == {None}
    example.cancel(first)
    assert wait_until(lambda: statuses(example, others) == {"completed"}, within=30)


def beat(example: ExampleInstallation) -> bool:
    """Wait for the worker's next sign of life."""
    alive = "SELECT alive_at FROM turno.workers"
    before = example.rows(alive)
    return wait_until(lambda: example.rows(alive) != before, within=10)


def test_job_cancelled_before_its_turn_does_not_run(example: ExampleInstallation) -> None:
    first, others = enqueue_batch(example, "wait_for_cancel")
    example.start_pool(TURNO_HEARTBEAT_SECONDS="0.2", **PATIENT)
    assert wait_until(lambda: running(example, first), within=30)
    example.cancel(others[1])
    example.cancel(first)
    ended = [first, *others]
    assert wait_until(lambda: all(example.job(job_id)["finished_at"] for job_id in ended), within=30)
    assert [example.job(job_id)["status"] for job_id in ended] == ["cancelled", "completed", "cancelled", "completed"]
