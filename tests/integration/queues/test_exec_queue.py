"""The promises of the exec backend alone: detached processes, few of them, and no forgotten job."""

import os
import signal
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from handlers.batch_invoicing import BatchInvoicing
from tests.installation import ROOT, ExampleInstallation
from tests.misbehaving_handlers import REGISTRY, Faulty
from turno.dispatch.dispatcher import Dispatcher
from turno.jobs.job import JobRef
from turno.jobs.new_job import NewJob
from turno.queues.exec.launcher import PROGRAM, ExecQueue
from turno.queues.exec.slots import Slot, SlotFolder
from turno.queues.interface import LAUNCHED
from turno.testing import processes
from turno.testing.wait import wait_until
from turno.worker.sources.spawned import ExecSource


@pytest.fixture
def queue(example: ExampleInstallation) -> Iterator[ExecQueue]:
    slots = SlotFolder(example.folder / "two-slots", 2)
    environment = example.environment | {"TURNO_HEARTBEAT_SECONDS": "1", "TURNO_DEAD_AFTER_SECONDS": "4"}
    yield ExecQueue(root=ROOT, slots=slots, log_file=example.folder / "log", environment=environment)
    for pid in workers():
        os.kill(pid, signal.SIGKILL)  # it may stay for longer than its test


def workers() -> dict[int, list[str]]:
    """The command line of each running worker that this test process launched."""
    result = {}
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().decode().split("\0")
            if PROGRAM in words and _parent(entry) == os.getpid():
                result[int(entry.name)] = words
        except (OSError, ValueError):
            continue
    return result


def _parent(entry: Path) -> int:
    return int((entry / "stat").read_text().rpartition(")")[2].split()[1])


def test_worker_is_a_detached_process_without_shell(example: ExampleInstallation, queue: ExecQueue) -> None:
    job_id = example.enqueue({"order_ids": example.order_ids()})
    assert queue.offer(JobRef("suc0001", job_id))
    (pid, words), *_ = workers().items()
    assert words[1:-1] == [*LAUNCHED, "-m", PROGRAM, str(job_id)]
    assert os.getsid(pid) == pid
    assert str(Path(f"/proc/{pid}/fd/0").readlink()) == os.devnull
    assert Path(f"/proc/{pid}/fd/1").readlink() == example.folder / "log"
    assert wait_until(lambda: example.job(job_id)["status"] == "completed", within=30)
    assert wait_until(lambda: workers() == {}, within=30)


def test_finishing_worker_takes_jobs_beyond_the_cap(example: ExampleInstallation, queue: ExecQueue) -> None:
    jobs = [example.enqueue({"order_ids": [order]}) for order in example.order_ids()[:8]]
    launched = [queue.offer(JobRef("suc0001", job_id)) for job_id in jobs]
    assert launched[:2] == [True, True]
    assert launched.count(True) < len(jobs)
    assert wait_until(lambda: {example.job(job_id)["status"] for job_id in jobs} == {"completed"}, within=30)
    assert wait_until(lambda: workers() == {}, within=30)


def test_job_offered_as_last_worker_leaves_is_not_forgotten(example: ExampleInstallation, queue: ExecQueue) -> None:
    """Offered again and again while workers come and go: a launcher without a slot relies on a leaving worker."""
    jobs = []
    for order in example.order_ids():
        jobs.append(example.enqueue({"order_ids": [order]}))
        queue.offer(JobRef("suc0001", jobs[-1]))
        wait_until(lambda: len(workers()) < 2, within=0.2)
    assert wait_until(lambda: {example.job(job_id)["status"] for job_id in jobs} == {"completed"}, within=60)


class SoundSlot(Slot):
    """A usual place; or in reserve, beside the places of some tenants."""

    used_for = ""
    in_reserve = False
    neighbours: frozenset[str] = frozenset()

    def __init__(self) -> None:
        super().__init__(-1, Path(), 0)

    def use_for(self, tenant: str) -> None:
        self.used_for = tenant

    def ordinary(self) -> bool:
        return not self.in_reserve

    def others(self) -> frozenset[str]:
        assert self.used_for == "", "a place that is looking for a job has no owner"
        return self.neighbours


class LastSlot(SoundSlot):
    """The only place on this host; while it is given up, another launcher without a place leaves a job."""

    def __init__(self, example: ExampleInstallation, *, regained: bool) -> None:
        super().__init__()
        self._example = example
        self._regained = regained
        self.left: UUID | None = None

    def release(self) -> None:
        self.left = self._example.enqueue({"order_ids": [1]})

    def regain(self) -> bool:
        return self._regained

    def close(self) -> None:
        pass


@pytest.mark.parametrize("regained", [True, False])
def test_leaving_worker_looks_once_more_without_its_place(example: ExampleInstallation, *, regained: bool) -> None:
    example.rows("UPDATE turno.leases SET until = now() + interval '9 s'")  # or it would stay until the next sweep
    slot = LastSlot(example, regained=regained)
    engine = example.engine
    source = ExecSource(engine=engine, registry=REGISTRY, job_id=None, slot=slot)
    worker = engine.start_worker(backend="exec", host="test", pid=1)
    assert [claim.job_id for (claim,) in source.take(worker, 1)] == ([slot.left] if regained else [])
    assert source.exhausted is not regained


class FreeSlot(SoundSlot):
    """A place without competitors."""

    taken = True

    def release(self) -> None:
        self.taken = False

    def regain(self) -> bool:
        self.taken = True
        return True

    def close(self) -> None:
        pass


class Idler:
    """A launched worker with nothing to do, on a clock that the test moves."""

    def __init__(self, example: ExampleInstallation) -> None:
        self.now = 0.0
        self.slot = FreeSlot()
        engine = example.engine
        self.source = ExecSource(engine=engine, registry=REGISTRY, job_id=None, slot=self.slot, clock=lambda: self.now)
        self.worker = engine.start_worker(backend="exec", host="test", pid=1)

    def looks(self) -> list[UUID]:
        return [claim.job_id for (claim,) in self.source.take(self.worker, 1)]

    @property
    def stays(self) -> bool:
        return not self.source.exhausted


@pytest.fixture
def idler(example: ExampleInstallation) -> Idler:
    example.faulty = True
    example.rows("UPDATE turno.leases SET until = now() + interval '9 s'")  # a sweep has just run
    return Idler(example)


def test_reserve_takes_no_job_of_a_tenant_with_a_place(example: ExampleInstallation, idler: Idler) -> None:
    example.enqueue({"how": "ok"}, handler=Faulty)
    other = example.enqueue({"how": "ok"}, handler=Faulty, tenant=example.other)
    idler.slot.in_reserve, idler.slot.neighbours = True, frozenset({"suc0001"})
    assert idler.looks() == [other]
    assert idler.slot.used_for == "suc0002"
    assert idler.looks() == []
    assert (idler.slot.used_for, idler.slot.taken) == ("", False)


def test_ordinary_place_prefers_tenants_without_places(example: ExampleInstallation, idler: Idler) -> None:
    mine = [example.enqueue({"how": "ok"}, handler=Faulty) for _ in range(3)]
    others = [example.enqueue({"how": "ok"}, handler=Faulty, tenant=example.other) for _ in range(3)]
    idler.slot.neighbours = frozenset({"suc0001"})
    taken = [job_id for _ in range(6) for job_id in idler.looks()]
    assert (set(taken[:3]), set(taken[3:])) == (set(others), set(mine))


@pytest.fixture
def no_worker_left() -> Iterator[None]:
    """Launched workers are detached: workers of a failed test would work on for ever."""
    yield
    launched = [pid for pid in processes.below(os.getpid()) if LAUNCHED[1].encode() in _words(pid)]
    processes.send(signal.SIGKILL, *launched)


def _words(pid: int) -> list[bytes]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


@pytest.mark.usefixtures("no_worker_left")
def test_long_jobs_in_every_place_delay_no_tenant(example: ExampleInstallation, tmp_path: Path) -> None:
    example.faulty = True
    queue = ExecQueue(
        root=ROOT,
        slots=SlotFolder(tmp_path / "slots", 2, reserve=1),
        log_file=tmp_path / "log",
        environment=example.environment | {"TURNO_HEARTBEAT_SECONDS": "0.2"},
    )
    long = [example.enqueue({"how": "wait_for_cancel"}, handler=Faulty) for _ in range(3)]
    assert [queue.offer(JobRef("suc0001", job_id)) for job_id in long] == [True, True, False]
    running = "SELECT id FROM background_jobs WHERE status = 'running'"
    assert wait_until(lambda: len(example.rows(running)) == 2, within=20)
    others = [example.enqueue({"how": "ok"}, handler=Faulty, tenant=example.other) for _ in range(3)]
    # The remaining jobs find the place in reserve taken: its owner takes them next.
    assert queue.offer(JobRef("suc0002", others[0]))
    for job_id in others[1:]:
        queue.offer(JobRef("suc0002", job_id))
    assert wait_until(
        lambda: all(example.job(job_id, tenant=example.other)["finished_at"] for job_id in others), within=20
    )
    assert example.job(long[2])["attempt"] == 0
    for job_id in long[:2]:
        example.cancel(job_id)
    assert wait_until(lambda: example.job(long[2])["status"] == "running", within=20)
    example.cancel(long[2])
    assert wait_until(lambda: example.job(long[2])["finished_at"] is not None, within=20)


def due_in(example: ExampleInstallation, seconds: float) -> UUID:
    job_id = example.enqueue({"how": "ok"}, handler=Faulty, run_at=datetime.now(UTC) + timedelta(hours=1))
    example.rows("UPDATE turno.tickets SET run_at = now() + %s * interval '1 s' WHERE job_id = %s", seconds, job_id)
    return job_id


def test_a_worker_with_nothing_to_wait_for_leaves(example: ExampleInstallation, idler: Idler) -> None:
    due_in(example, 3600)
    assert idler.looks() == []
    assert not idler.stays
    assert not idler.slot.taken


def test_worker_stays_for_jobs_due_within_a_minute(example: ExampleInstallation, idler: Idler) -> None:
    job_id = due_in(example, 30)
    assert idler.looks() == []
    assert idler.stays
    assert not idler.slot.taken  # others may be launched meanwhile
    assert idler.source.poll_in() <= 1
    example.rows("UPDATE turno.tickets SET run_at = now()")
    idler.now = 30
    assert idler.looks() == [job_id]
    assert idler.slot.taken


def test_a_worker_stays_for_a_minute_and_no_longer(example: ExampleInstallation, idler: Idler) -> None:
    due_in(example, 50)
    idler.looks()
    idler.now = 20
    idler.looks()
    assert not idler.stays  # a job due 50 s from now is due after its minute


def test_of_several_workers_the_last_to_become_idle_stays(example: ExampleInstallation, idler: Idler) -> None:
    due_in(example, 30)
    other = Idler(example)
    idler.looks()
    assert idler.stays
    other.looks()
    idler.now = 1
    idler.looks()
    assert (idler.stays, other.stays) == (False, True)


def test_worker_stays_until_a_sweep_has_run(example: ExampleInstallation, idler: Idler) -> None:
    example.rows("UPDATE turno.leases SET until = now() - interval '1 s'")
    idler.looks()
    assert idler.stays
    example.rows("UPDATE turno.leases SET until = now() + interval '9 s' WHERE name = 'sweep'")
    idler.looks()
    assert not idler.stays


def test_a_worker_stays_while_another_at_work_is_silent(example: ExampleInstallation, idler: Idler) -> None:
    job_id = example.enqueue({"how": "ok"}, handler=Faulty)
    other = example.engine.start_worker(backend="exec", host="test", pid=2)
    assert example.engine.claim_job(other, job_id, types=REGISTRY.versions)
    example.rows("UPDATE turno.workers SET alive_at = now() - interval '10 s' WHERE id = %s", other)
    idler.looks()
    idler.now = 5
    idler.looks()
    assert idler.stays
    example.engine.keep_alive(other)
    idler.looks()
    assert not idler.stays


def test_next_job_recovers_a_killed_one_within_a_minute(example: ExampleInstallation, queue: ExecQueue) -> None:
    """No cron and no resident worker; the next job is a later one, which no worker has to run yet."""
    example.rows("DELETE FROM turno.leases")
    killed = example.enqueue({"order_ids": example.order_ids()[:1]})
    example.work(killed, crash_at="chunk_committed:both")  # the worker and its child
    assert (example.ticket(killed) or {})["state"] == "running"
    retry = example.enqueue({"order_ids": example.order_ids()[1:2]}, run_at=datetime.now(UTC) + timedelta(seconds=2))
    dispatcher = Dispatcher(connection=lambda: nullcontext(example.web), queue=queue, pending_limit=100)
    batch = NewJob.of(BatchInvoicing, {"order_ids": [1]}, user_id="ana", run_at=datetime.now(UTC) + timedelta(hours=1))
    assert dispatcher.submit(example.one, batch).word == "accepted"
    assert wait_until(lambda: example.job(retry)["status"] == "completed", within=15)
    assert wait_until(lambda: example.job(killed)["status"] == "completed", within=35)


def test_a_heartbeat_that_a_handler_cannot_block(example: ExampleInstallation) -> None:
    example.faulty = True
    job_id = example.enqueue({"how": "loop_forever"}, handler=Faulty)
    example.start_worker(job_id, TURNO_HEARTBEAT_SECONDS="0.1")
    assert wait_until(lambda: example.job(job_id)["status"] == "running", within=20)
    beats = {row["alive_at"] for row in example.rows("SELECT alive_at FROM turno.workers")}

    def three_more() -> bool:
        beats.update(row["alive_at"] for row in example.rows("SELECT alive_at FROM turno.workers"))
        return len(beats) >= 4

    assert wait_until(three_more, within=10)


def test_a_child_s_death_is_recorded_within_a_second(example: ExampleInstallation) -> None:
    example.faulty = True
    job_id = example.enqueue({"how": "loop_forever"}, handler=Faulty)
    example.start_worker(job_id)
    assert wait_until(lambda: example.job(job_id)["status"] == "running", within=20)
    (worker,) = example.workers
    (child,) = processes.children(worker.pid)
    os.kill(child, 9)
    # No other worker could: the job's worker is alive, so that no sweep takes the job back.
    assert wait_until(lambda: example.job(job_id)["crashes"] == 1, within=20)


def test_a_child_does_not_outlive_its_supervisor(example: ExampleInstallation) -> None:
    example.faulty = True
    job_id = example.enqueue({"how": "loop_forever"}, handler=Faulty)
    worker = example.start_worker(job_id)
    assert wait_until(lambda: example.job(job_id)["status"] == "running", within=20)
    below = processes.below(worker.pid)
    worker.kill()
    try:
        assert wait_until(lambda: not any(map(runs, below)), within=20)
    finally:
        processes.kill(*filter(runs, below))
        worker.communicate()


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_worker_declared_dead_stops_itself(example: ExampleInstallation) -> None:
    example.faulty = True
    job_id = example.enqueue({"how": "sleep_in_sql", "number": 5}, handler=Faulty)
    worker = example.start_worker(job_id, TURNO_HEARTBEAT_SECONDS="0.1")
    assert wait_until(lambda: example.job(job_id)["status"] == "running", within=20)
    example.rows("DELETE FROM turno.workers")
    log, _ = worker.communicate(timeout=20)
    assert worker.returncode == 1, log
    assert "others have its jobs" in log
    job = example.job(job_id)
    assert (job["status"], job["reason"], job["crashes"]) == ("pending", "its worker ended unexpectedly", 0)
    example.sweep(reoffer_after=3600)
    assert example.job(job_id)["status"] == "pending"
