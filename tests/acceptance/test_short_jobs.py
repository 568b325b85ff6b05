"""Short jobs come to a child in batches; each has the promises of a single job, and none waits long."""

from __future__ import annotations

import signal
from itertools import pairwise
from threading import Thread
from uuid import UUID

import pytest

from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import Odd, OddHurried
from turno.servers.wait import wait_until
from turno.worker import crash_reasons

JOBS = 4
PATIENT = {"LONG": "60", "TURNO_MAX_CHILDREN": "1", "TURNO_MIN_CHILDREN": "1"}
IMPATIENT = PATIENT | {"LONG": "0.1"}


@pytest.fixture(autouse=True)
def generous_pool(world: ExampleInstallation) -> None:
    world.backend = "pool"
    world.registry = "tests.larger_batches:REGISTRY"


def enqueue_batch(world: ExampleInstallation, first: str, handler: type[Odd] = Odd) -> tuple[UUID, list[UUID]]:
    """Enqueue jobs that go to a child as one batch; the first job does this, and each further job returns its
    process."""
    one = world.enqueue({"how": first}, handler=handler)
    return one, [world.enqueue({"how": "pid"}, handler=handler) for _ in range(JOBS - 1)]


def statuses(world: ExampleInstallation, jobs: list[UUID]) -> set[str]:
    return {world.job(job_id)["status"] for job_id in jobs}


def running(world: ExampleInstallation, job_id: UUID) -> bool:
    return bool(world.job(job_id)["status"] == "running")


def test_each_job_of_a_batch_ends_separately(world: ExampleInstallation) -> None:
    first, others = enqueue_batch(world, "pid")
    world.start_pool(**PATIENT)
    assert wait_until(lambda: statuses(world, [first, *others]) == {"completed"}, within=30)
    jobs = [world.job(job_id) for job_id in (first, *others)]
    assert len({job["result"]["pid"] for job in jobs}) == 1
    assert {job["attempt"] for job in jobs} == {1}
    starts = world.rows("SELECT started_at, finished_at FROM background_job_attempts ORDER BY started_at")
    assert all(before["finished_at"] < after["started_at"] for before, after in pairwise(starts))


def test_dead_job_harms_no_neighbour(world: ExampleInstallation) -> None:
    dead, others = enqueue_batch(world, "kill_self")
    world.start_pool(**PATIENT)
    assert wait_until(lambda: statuses(world, others) == {"completed"}, within=30)
    assert wait_until(lambda: world.job(dead)["crashes"] > 0, within=30)
    assert {(job["attempt"], job["crashes"]) for job in map(world.job, others)} == {(1, 0)}


def test_death_at_the_end_of_a_job_harms_no_neighbour(world: ExampleInstallation) -> None:
    first, others = enqueue_batch(world, "pid")
    world.start_pool(
        TURNO_CRASH_AT="completed", TOGETHER="0", **PATIENT
    )  # each child, when the next is fetched already
    assert wait_until(lambda: statuses(world, [first, *others]) == {"completed"}, within=30)
    jobs = [world.job(job_id) for job_id in (first, *others)]
    assert {(job["attempt"], job["errors"], job["crashes"]) for job in jobs} == {(1, 0, 0)}


def test_worn_out_child_leaves_the_rest_of_its_batch(world: ExampleInstallation) -> None:
    first, others = enqueue_batch(world, "pid")
    world.start_pool(TURNO_LIMITS="child_jobs=1", **PATIENT)
    assert wait_until(lambda: statuses(world, [first, *others]) == {"completed"}, within=30)
    jobs = [world.job(job_id) for job_id in (first, *others)]
    assert len({job["result"]["pid"] for job in jobs}) == JOBS
    assert {job["attempt"] for job in jobs} == {1}


def test_overdue_job_harms_no_neighbour(world: ExampleInstallation) -> None:
    overdue, others = enqueue_batch(world, "loop_forever", OddHurried)
    world.start_pool(TURNO_SHUTDOWN_GRACE_SECONDS="0.6", **PATIENT)
    assert wait_until(lambda: statuses(world, others) == {"completed"}, within=30)
    assert {(job["attempt"], job["crashes"]) for job in map(world.job, others)} == {(1, 0)}
    assert wait_until(lambda: world.job(overdue)["finished_at"] is not None, within=30)
    assert world.job(overdue)["reason"] == "time limit of 1 s"


def test_behind_a_long_one_they_go_to_another_child(world: ExampleInstallation) -> None:
    long, others = enqueue_batch(world, "loop_forever")
    world.start_pool(**IMPATIENT | {"TURNO_MAX_CHILDREN": "2"})
    assert wait_until(lambda: statuses(world, others) == {"completed"}, within=30)
    assert running(world, long)
    assert {world.job(job_id)["attempt"] for job_id in others} == {1}


def test_behind_a_long_one_they_go_to_another_worker(world: ExampleInstallation) -> None:
    long, others = enqueue_batch(world, "loop_forever")
    pool = world.start_pool(**IMPATIENT, TURNO_LOG_LEVEL="DEBUG")
    given_back: list[str] = []
    reader = Thread(
        target=lambda: given_back.extend(line for line in pool.stdout or () if crash_reasons.NOT_STARTED in line)
    )
    reader.start()
    try:
        assert wait_until(lambda: len(given_back) == JOBS - 1, within=20)
        world.start_pool(**IMPATIENT)
        assert wait_until(lambda: statuses(world, others) == {"completed"}, within=30)
        assert running(world, long)
    finally:
        pool.kill()
        reader.join()
    assert {(job["errors"], job["crashes"]) for job in map(world.job, others)} == {(0, 0)}


def test_stopping_worker_gives_back_unbegun_jobs(world: ExampleInstallation) -> None:
    first, others = enqueue_batch(world, "wait_for_checkpoint_stop")
    pool = world.start_pool(**PATIENT)
    assert wait_until(lambda: running(world, first), within=30)
    pool.send_signal(signal.SIGTERM)
    log, _ = pool.communicate(timeout=20)
    assert pool.returncode == 0, log
    assert statuses(world, [first, *others]) == {"pending"}
    assert {(job["attempt"], job["errors"], job["crashes"]) for job in map(world.job, others)} == {(0, 0, 0)}
    assert {row["state"] for row in world.rows("SELECT state FROM turno.tickets")} == {"ready"}


def test_heartbeat_keeps_waiting_jobs_in_their_place(world: ExampleInstallation) -> None:
    first, others = enqueue_batch(world, "wait_for_cancel")
    world.start_pool(TURNO_HEARTBEAT_SECONDS="0.1", **PATIENT)
    assert wait_until(lambda: running(world, first), within=30)
    beats = "SELECT alive_at FROM turno.workers"
    assert len({world.rows(beats)[0]["alive_at"] for _ in range(5) if beat(world)}) == 5
    assert {world.job(job_id)["reason"] for job_id in others} == {None}
    world.cancel(first)
    assert wait_until(lambda: statuses(world, others) == {"completed"}, within=30)


def beat(world: ExampleInstallation) -> bool:
    """Wait for the worker's next sign of life."""
    alive = "SELECT alive_at FROM turno.workers"
    before = world.rows(alive)
    return wait_until(lambda: world.rows(alive) != before, within=10)


def test_job_cancelled_before_its_turn_does_not_run(world: ExampleInstallation) -> None:
    first, others = enqueue_batch(world, "wait_for_cancel")
    world.start_pool(TURNO_HEARTBEAT_SECONDS="0.2", **PATIENT)
    assert wait_until(lambda: running(world, first), within=30)
    world.cancel(others[1])
    world.cancel(first)
    ended = [first, *others]
    assert wait_until(lambda: all(world.job(job_id)["finished_at"] for job_id in ended), within=30)
    assert [world.job(job_id)["status"] for job_id in ended] == ["cancelled", "completed", "cancelled", "completed"]
