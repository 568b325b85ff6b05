"""What only the exec backend promises: detached processes, few of them, and nobody forgotten."""

import os
from pathlib import Path
from uuid import UUID

import pytest

from app.jobs.job import JobRef
from app.queues.exec import ExecQueue
from app.queues.interface import LAUNCHED
from app.queues.slots import SlotFolder
from app.store import tickets
from app.work.engine import EngineLink
from app.work.exec_source import ExecSource
from cli.deadline import becomes_true
from cli.testing import processes
from tests.odd_handlers import REGISTRY, Odd
from tests.world import ROOT, World


@pytest.fixture
def queue(world: World) -> ExecQueue:
    slots = SlotFolder(world.folder / "two-slots", 2)
    return ExecQueue(root=ROOT, slots=slots, log_file=world.folder / "log", environment=world.environment)


def workers() -> dict[int, list[str]]:
    """The command line of each running worker that this test process launched."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().decode().split("\0")
            if any(word.endswith("background_worker.py") for word in words) and _parent(entry) == os.getpid():
                found[int(entry.name)] = words
        except (OSError, ValueError):
            continue
    return found


def _parent(entry: Path) -> int:
    return int((entry / "stat").read_text().rpartition(")")[2].split()[1])


def test_a_worker_is_a_process_of_its_own_started_from_an_argument_list(world: World, queue: ExecQueue) -> None:
    job_id = world.enqueue({"order_ids": world.order_ids()})
    assert queue.offer(JobRef("suc0001", job_id))
    (pid, words), *_ = workers().items()
    assert words[1:-1] == [*LAUNCHED, str(ROOT / "cli" / "background_worker.py"), str(job_id)]
    assert os.getsid(pid) == pid
    assert str(Path(f"/proc/{pid}/fd/0").readlink()) == os.devnull
    assert Path(f"/proc/{pid}/fd/1").readlink() == world.folder / "log"
    assert becomes_true(lambda: world.job(job_id)["status"] == "completed", within=30)
    assert becomes_true(lambda: workers() == {}, within=30)


def test_beyond_the_cap_jobs_wait_and_a_worker_that_finishes_takes_them(world: World, queue: ExecQueue) -> None:
    jobs = [world.enqueue({"order_ids": [order]}) for order in world.order_ids()[:8]]
    launched = [queue.offer(JobRef("suc0001", job_id)) for job_id in jobs]
    assert launched[:2] == [True, True]
    assert launched.count(True) < len(jobs)
    assert becomes_true(lambda: {world.job(job_id)["status"] for job_id in jobs} == {"completed"}, within=30)
    assert becomes_true(lambda: workers() == {}, within=30)


def test_a_job_offered_as_the_last_worker_leaves_is_not_forgotten(world: World, queue: ExecQueue) -> None:
    """Offered again and again while workers come and go: whoever finds no slot relies on one that is leaving."""
    jobs = []
    for order in world.order_ids():
        jobs.append(world.enqueue({"order_ids": [order]}))
        queue.offer(JobRef("suc0001", jobs[-1]))
        becomes_true(lambda: len(workers()) < 2, within=0.2)
    assert becomes_true(lambda: {world.job(job_id)["status"] for job_id in jobs} == {"completed"}, within=60)


class LastPlace:
    """The only place on this host; while it is given up, somebody who found none leaves a job."""

    def __init__(self, world: World, *, regained: bool) -> None:
        self._world = world
        self._regained = regained
        self.left: UUID | None = None

    def release(self) -> None:
        self.left = self._world.enqueue({"order_ids": [1]})

    def regain(self) -> bool:
        return self._regained

    def close(self) -> None:
        pass


@pytest.mark.parametrize("regained", [True, False])
def test_who_leaves_looks_once_more_after_giving_up_its_place(world: World, *, regained: bool) -> None:
    place = LastPlace(world, regained=regained)
    engine = EngineLink(lambda: world.engine)
    source = ExecSource(engine=engine, registry=REGISTRY, job_id=None, place=place)
    worker = engine.run(tickets.start_worker, backend="exec", host="test", pid=1)
    assert [claim.job_id for ((claim,),) in source.take(worker, 1)] == ([place.left] if regained else [])
    assert source.exhausted is not regained


def test_a_heartbeat_that_a_handler_cannot_block(world: World) -> None:
    world.odd = True
    job_id = world.enqueue({"how": "loop_forever"}, handler=Odd)
    world.start_worker(job_id, HEARTBEAT_SECONDS="0.1")
    assert becomes_true(lambda: world.job(job_id)["status"] == "running", within=20)
    beats = {row["alive_at"] for row in world.rows("SELECT alive_at FROM turno.workers")}

    def three_more() -> bool:
        beats.update(row["alive_at"] for row in world.rows("SELECT alive_at FROM turno.workers"))
        return len(beats) >= 4

    assert becomes_true(three_more, within=10)


def test_a_child_s_death_is_recorded_within_a_second(world: World) -> None:
    world.odd = True
    job_id = world.enqueue({"how": "loop_forever"}, handler=Odd)
    world.start_worker(job_id)
    assert becomes_true(lambda: world.job(job_id)["status"] == "running", within=20)
    (worker,) = world.workers
    (child,) = processes.children(worker.pid)
    os.kill(child, 9)
    assert becomes_true(lambda: world.job(job_id)["crashes"] == 1, within=1)


def test_a_child_does_not_outlive_its_supervisor(world: World) -> None:
    world.odd = True
    job_id = world.enqueue({"how": "loop_forever"}, handler=Odd)
    worker = world.start_worker(job_id)
    assert becomes_true(lambda: world.job(job_id)["status"] == "running", within=20)
    below = processes.below(worker.pid)
    worker.kill()
    try:
        assert becomes_true(lambda: not any(map(runs, below)), within=5)
    finally:
        processes.kill(*filter(runs, below))
        worker.communicate()


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_worker_that_others_declared_dead_stops_itself(world: World) -> None:
    world.odd = True
    job_id = world.enqueue({"how": "sleep_in_sql", "number": 5}, handler=Odd)
    worker = world.start_worker(job_id, HEARTBEAT_SECONDS="0.1")
    assert becomes_true(lambda: world.job(job_id)["status"] == "running", within=20)
    world.rows("DELETE FROM turno.workers")
    log, _ = worker.communicate(timeout=20)
    assert worker.returncode == 1, log
    assert "others have its jobs" in log
    job = world.job(job_id)
    assert (job["status"], job["reason"], job["crashes"]) == ("pending", "its worker ended unexpectedly", 0)
    world.sweep(REOFFER_AFTER_SECONDS="3600")
    assert world.job(job_id)["status"] == "pending"
