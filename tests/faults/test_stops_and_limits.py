"""Signals to one process of several, and a machine that has no more memory, descriptors or disk to give."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.installation import ROOT, ExampleInstallation
from tests.misbehaving_handlers import Faulty, FaultyOnce
from turno.jobs.job import JobRef
from turno.queues.exec.launcher import ExecQueue
from turno.queues.exec.slots import SlotFolder
from turno.testing.wait import wait_until


@pytest.fixture(autouse=True)
def faulty_pool(example: ExampleInstallation) -> None:
    example.faulty = True
    example.backend = "pool"
    example.rows("DELETE FROM customers WHERE company_name = 'Faulty'")


# A process with this limit opens no file, however many lower numbers become free.
FIRST_DESCRIPTOR = 3


def children(pid: int) -> list[int]:
    """Children with jobs: each leads a group, as the maintenance process does not."""
    result = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [child for child in result if Path(f"/proc/{child}").exists() and os.getpgid(child) == child]


def checkpointed(example: ExampleInstallation) -> bool:
    return example.rows("SELECT 1 FROM background_job_checkpoints") != []


def peak_kilobytes(pid: int) -> int:
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1])


def test_sigterm_to_a_child_alone_hands_its_job_back_uncounted(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"how": "wait_for_checkpoint_stop"}, handler=Faulty)
    pool = example.start_pool(TURNO_MAX_CHILDREN="1")
    assert wait_until(lambda: checkpointed(example), within=20)
    (child,) = children(pool.pid)
    os.kill(child, signal.SIGTERM)
    assert wait_until(lambda: example.job(job_id)["status"] == "completed", within=20)
    job = example.job(job_id)
    assert (job["errors"], job["crashes"], job["attempt"]) == (0, 0, 2)
    assert job["result"]["resumed_from"] >= 1
    assert pool.poll() is None


def test_stopped_parent_loses_job_and_child_writes_nothing(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"how": "wait_for_checkpoint_stop"}, handler=Faulty)
    old = example.start_pool(TURNO_MAX_CHILDREN="1", TURNO_HEARTBEAT_SECONDS="0.2", TURNO_DEAD_AFTER_SECONDS="0.5")
    assert wait_until(lambda: checkpointed(example), within=20)
    os.kill(old.pid, signal.SIGSTOP)

    def taken_back() -> bool:
        # Taken back, or given back by the child when it lost its session: it has the token until then. Not at once
        # if the parent's last heartbeat was still on its way.
        example.rows("UPDATE turno.workers SET alive_at = alive_at - interval '1 hour'")
        example.sweep()
        return bool(example.job(job_id)["status"] == "pending")

    assert wait_until(taken_back, within=20)
    example.time_passes()
    example.start_pool()
    assert wait_until(lambda: example.job(job_id)["status"] == "completed", within=20)
    finished = example.job(job_id)
    os.kill(old.pid, signal.SIGCONT)
    log, _ = old.communicate(timeout=20)
    assert old.returncode == 1, log
    assert example.job(job_id) == finished
    assert len(example.rows("SELECT 1 FROM notifications")) == 1


def test_an_interrupt_drains_like_sigterm(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"how": "wait_for_checkpoint_stop"}, handler=Faulty)
    pool = example.start_pool()
    assert wait_until(lambda: checkpointed(example), within=20)
    pool.send_signal(signal.SIGINT)
    log, _ = pool.communicate(timeout=20)
    assert pool.returncode == 0, log
    assert (example.job(job_id)["status"], example.job(job_id)["errors"]) == ("pending", 0)


def test_a_parent_rests_while_every_child_is_busy(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"how": "hold_a_lock", "text": "SELECT 1"}, handler=Faulty)
    pool = example.start_pool(TURNO_MAX_CHILDREN="1")
    assert wait_until(lambda: example.job(job_id)["status"] == "running", within=20)

    def switches() -> int:
        lines = Path(f"/proc/{pool.pid}/status").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)

    before, beats = switches(), example.rows("SELECT clock_timestamp() AS at")[0]["at"]
    assert wait_until(
        lambda: example.rows("SELECT clock_timestamp() - %s > interval '1 s' AS over", beats)[0]["over"], within=10
    )
    assert switches() - before < 200  # it would be a thousand a second


def test_large_output_of_handler_bypasses_its_parent(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"how": "print_much", "number": 200}, handler=Faulty)
    with Path(os.devnull).open("w") as nowhere:
        pool = subprocess.Popen(
            [sys.executable, str(ROOT / "cli" / "worker_pool.py")], env=example.environment,
            stdout=nowhere, stderr=nowhere, start_new_session=True,
        )  # fmt: skip
    try:
        assert wait_until(lambda: example.job(job_id)["status"] == "completed", within=20)
        assert peak_kilobytes(pool.pid) < 150 * 1024
    finally:
        pool.kill()
        pool.wait()


@pytest.mark.parametrize(("how", "says"), [("huge_result", "at most 262144"), ("huge_error", "xxx")])
def test_a_huge_answer_stays_in_the_child(example: ExampleInstallation, how: str, says: str) -> None:
    job_id = example.enqueue({"how": how, "number": 200}, handler=FaultyOnce)
    pool = example.start_pool(TURNO_MAX_CHILDREN="1")
    assert wait_until(lambda: example.job(job_id)["finished_at"] is not None, within=30)
    job = example.job(job_id)
    assert (job["status"], says in job["error"]["message"]) == ("failed", True)
    assert len(job["error"]["message"]) <= 2000
    assert peak_kilobytes(pool.pid) < 150 * 1024
    after = example.enqueue({"how": "ok"}, handler=Faulty)
    assert wait_until(lambda: example.job(after)["status"] == "completed", within=20)


@pytest.mark.parametrize("backend", ["exec", "pool"])
def test_a_log_that_cannot_be_written_stops_no_job(example: ExampleInstallation, backend: str) -> None:
    example.backend = backend
    job_id = example.enqueue({"how": "ok"}, handler=Faulty)
    program = ["worker_pool.py"] if backend == "pool" else ["background_worker.py", str(job_id)]
    with Path("/dev/full").open("w") as full:
        worker = subprocess.Popen(
            [sys.executable, str(ROOT / "cli" / program[0]), *program[1:]], env=example.environment,
            stdout=full, stderr=full, start_new_session=True,
        )  # fmt: skip
    try:
        assert wait_until(lambda: example.job(job_id)["status"] == "completed", within=20)
    finally:
        worker.kill()
        worker.wait()


def test_a_log_file_that_cannot_be_opened_leaves_the_job_waiting(example: ExampleInstallation, tmp_path: Path) -> None:
    example.backend = "exec"
    job_id = example.enqueue({"order_ids": [1]})
    queue = ExecQueue(
        root=ROOT, slots=SlotFolder(tmp_path / "slots", 1), log_file=tmp_path / "no" / "log",
        environment=example.environment,
    )  # fmt: skip
    assert queue.offer(JobRef("suc0001", job_id)) is False
    ticket = example.ticket(job_id)
    assert ticket is not None
    assert ticket["state"] == "ready"
    whole = ExecQueue(
        root=ROOT, slots=SlotFolder(tmp_path / "slots", 1), log_file=tmp_path / "log", environment=example.environment
    )
    assert whole.offer(JobRef("suc0001", job_id)) is True
    assert wait_until(lambda: example.job(job_id)["status"] == "completed", within=20)


@contextmanager
def few_descriptors(more: int) -> Iterator[None]:
    """Let this process open only this number of further files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(entry.name) for entry in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + more, hard))
    descriptors = []
    try:
        while True:
            try:
                descriptors.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                break
        for descriptor in descriptors[len(descriptors) - more + 1 :]:
            os.close(descriptor)
        del descriptors[len(descriptors) - more + 1 :]
        yield
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("more", [1, 2, 4])
def test_missing_descriptors_launch_no_worker(example: ExampleInstallation, tmp_path: Path, more: int) -> None:
    example.backend = "exec"
    job_id = example.enqueue({"order_ids": [1]})
    queue = ExecQueue(
        root=ROOT, slots=SlotFolder(tmp_path, 4), log_file=tmp_path / "log", environment=example.environment
    )
    before = len(list(Path("/proc/self/fd").iterdir()))
    with few_descriptors(more):
        assert queue.offer(JobRef("suc0001", job_id)) is False
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert queue.offer(JobRef("suc0001", job_id)) is True
    assert wait_until(lambda: example.job(job_id)["status"] == "completed", within=20)


def test_a_pool_that_cannot_fork_gives_the_job_back_and_stays(example: ExampleInstallation) -> None:
    pool = example.start_pool(TURNO_MIN_CHILDREN="0")
    # The first job of the pool, so that no second child exists that is idle and takes the next job.
    busy = example.enqueue({"how": "hold_a_lock", "text": "SELECT 1"}, handler=Faulty)
    assert wait_until(lambda: example.job(busy)["status"] == "running", within=20)
    limits = resource.prlimit(pool.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pool.pid, resource.RLIMIT_NOFILE, (FIRST_DESCRIPTOR, limits[1]))
    starved = example.enqueue({"how": "ok"}, handler=Faulty)
    assert pool.stdout is not None
    assert any("no process could be had" in line for line in pool.stdout)
    assert (example.ticket(starved) or {})["state"] == "scheduled"  # for others, after a while
    assert pool.poll() is None
    assert (example.job(starved)["status"], example.job(starved)["crashes"]) == ("pending", 0)
    resource.prlimit(pool.pid, resource.RLIMIT_NOFILE, limits)
    example.time_passes()
    assert wait_until(lambda: example.job(starved)["status"] == "completed", within=20)


@pytest.mark.root
def test_child_ended_for_memory_costs_parent_nothing(example: ExampleInstallation) -> None:
    bad = example.enqueue({"how": "exhaust_memory"}, handler=Faulty)
    good = example.enqueue({"how": "ok"}, handler=Faulty)
    with memory_group(180) as group:
        pool = example.start_pool(TURNO_MAX_CHILDREN="1", **({} if group else {"TURNO_LIMITS": "child_mb=64"}))
        if group is None:
            resource.prlimit(pool.pid, resource.RLIMIT_AS, (2**30, 2**30))
        else:
            (group / "cgroup.procs").write_text(str(pool.pid))
        assert wait_until(lambda: example.job(good)["finished_at"] is not None, within=30)
        assert wait_until(lambda: example.job(bad)["finished_at"] is not None, within=30)
        assert pool.poll() is None
        example.stop_workers()
    assert (example.job(bad)["status"], example.job(bad)["crashes"]) == ("failed", 3)
    assert "memory" in example.job(bad)["reason"]


GROUPS = (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max"))


def made_group(root: Path, limit: str, megabytes: int) -> Path | None:
    group = root / f"turno-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / limit).write_text(str(megabytes << 20))
    except OSError:
        if group.exists():
            group.rmdir()
        return None
    return group


@contextmanager
def memory_group(megabytes: int) -> Iterator[Path | None]:
    """Give a control group of this memory, or None where this machine permits none."""
    group = next(filter(None, (made_group(Path(root), limit, megabytes) for root, limit in GROUPS)), None)
    yield group
    if group is not None:
        assert wait_until(lambda: (group / "cgroup.procs").read_text() == "", within=10)
        group.rmdir()
