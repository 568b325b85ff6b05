"""A batch with a process that dies, hangs, is stopped or comes back too late: nothing lost, nothing doubled."""

import os
import signal
import subprocess
from pathlib import Path
from uuid import UUID

import pytest

from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import FaultyBatched, FaultyBatchedHurried, FaultySmall
from turno.testing.wait import wait_until


@pytest.fixture(autouse=True)
def faulty_pool(example: ExampleInstallation) -> None:
    example.registry = "tests.larger_batches:REGISTRY"
    example.backend = "pool"
    example.rows("DELETE FROM customers WHERE company_name = 'Faulty'")


def put(example: ExampleInstallation, *deeds: str, handler: type[FaultyBatched] = FaultyBatched) -> list[UUID]:
    return [example.enqueue({"how": how, "text": f"G{n}"}, handler=handler) for n, how in enumerate(deeds)]


def start(example: ExampleInstallation, **extra: str) -> subprocess.Popen[str]:
    patient = {"JOBS": "8", "LONG": "60", "TOGETHER": "60"}
    return example.start_pool(TURNO_MIN_CHILDREN="1", TURNO_MAX_CHILDREN="1", **patient, **extra)


def ended(example: ExampleInstallation, jobs: list[UUID]) -> bool:
    return all(example.job(job_id)["finished_at"] for job_id in jobs)


def shown(example: ExampleInstallation) -> bool:
    """Say whether one of the jobs has shown its progress."""
    return example.rows("SELECT 1 FROM background_job_progress") != []


def of_jobs(example: ExampleInstallation, jobs: list[UUID], column: str) -> list[object]:
    return [example.job(job_id)[column] for job_id in jobs]


def assert_done_once(example: ExampleInstallation, jobs: list[UUID]) -> None:
    """Each customer was made once, by the attempt that completed its job; the index on their ids allows no second."""
    assert of_jobs(example, jobs, "status") == ["completed"] * len(jobs)
    made = example.rows("SELECT id FROM customers WHERE country = 'batched' ORDER BY id")
    assert [row["id"] for row in made] == [f"G{n}" for n in range(len(jobs))]
    assert len(example.rows("SELECT 1 FROM notifications")) == len(jobs)
    assert example.rows("SELECT 1 FROM background_job_attempts WHERE finished_at IS NULL") == []
    assert example.rows("SELECT 1 FROM turno.tickets") == []


STEPS = ["started", "member", "completing", "completed"]


@pytest.mark.parametrize("target", [pytest.param("parent", marks=pytest.mark.deep), "both"])
@pytest.mark.parametrize("step", STEPS)
def test_a_kill_in_a_batch_s_life_neither_loses_nor_doubles(
    example: ExampleInstallation, step: str, target: str
) -> None:
    jobs = put(example, *["ok"] * 5)
    start(example, TURNO_CRASH_AT=f"{step}:{target}").wait(30)
    example.time_passes()
    example.sweep()
    example.time_passes()
    start(example)
    assert wait_until(lambda: ended(example, jobs), within=30)
    assert_done_once(example, jobs)
    # The guilty job is unknown, so none is counted and each runs alone.
    assert of_jobs(example, jobs, "crashes") == [0] * 5


@pytest.mark.deep
@pytest.mark.parametrize("step", STEPS)
def test_a_kill_of_the_child_neither_loses_nor_doubles(example: ExampleInstallation, step: str) -> None:
    jobs = put(example, *["ok"] * 5)
    pool = start(example, TURNO_CRASH_AT=f"{step}:self")
    assert wait_until(lambda: ended(example, jobs) or any(of_jobs(example, jobs, "reason")), within=30)
    pool.kill()
    pool.wait(20)
    example.time_passes()
    example.sweep()
    example.time_passes()
    start(example)
    assert wait_until(lambda: ended(example, jobs), within=30)
    assert_done_once(example, jobs)


def test_child_killed_between_jobs_is_replaced_uncounted(example: ExampleInstallation) -> None:
    jobs = put(example, *["ok"] * 5)
    start(example, TURNO_CRASH_AT="member:self:3")
    assert wait_until(lambda: ended(example, jobs), within=30)
    assert_done_once(example, jobs)
    assert of_jobs(example, jobs, "crashes") == [0] * 5
    assert of_jobs(example, jobs, "attempt") == [2, 2, 2, 1, 1]


@pytest.mark.parametrize(
    "how",
    ["kill_self", *(pytest.param(how, marks=pytest.mark.deep) for how in ("sys_exit_0", "os_exit_0", "segfault"))],
)
def test_one_that_kills_its_worker_is_the_only_one_to_be_counted(example: ExampleInstallation, how: str) -> None:
    jobs = put(example, "ok", how, "ok", how, "ok")
    start(example)
    assert wait_until(lambda: ended(example, jobs), within=30)
    assert of_jobs(example, jobs, "status") == ["completed", "failed", "completed", "failed", "completed"]
    assert of_jobs(example, jobs, "crashes") == [0, 3, 0, 3, 0]


@pytest.mark.parametrize(
    ("end", "status", "crashes"),
    [("ok", "completed", 0), pytest.param("kill_self", "failed", 3, marks=pytest.mark.deep)],
)
def test_leftovers_of_a_job_end_before_its_neighbour(
    example: ExampleInstallation, tmp_path: Path, end: str, status: str, crashes: int
) -> None:
    deeds = [{"how": "ok"}, {"how": "escape", "text": end}, {"how": "look_for_the_escaped"}, {"how": "ok"}]
    jobs = [example.enqueue(deed, handler=FaultyBatched) for deed in deeds]
    start(example, ESCAPED=str(tmp_path / "pid"))
    assert wait_until(lambda: ended(example, jobs), within=30)
    assert of_jobs(example, jobs, "status") == ["completed", status, "completed", "completed"]
    assert of_jobs(example, jobs, "crashes") == [0, crashes, 0, 0]
    assert example.job(jobs[2])["result"] == {"runs": False}


@pytest.mark.deep
def test_one_that_leaks_all_memory_is_the_only_one_to_be_counted(example: ExampleInstallation) -> None:
    jobs = [example.enqueue({"how": how}, handler=FaultySmall) for how in ("ok", "exhaust_memory", "ok")]
    start(example)
    assert wait_until(lambda: ended(example, jobs), within=30)
    assert of_jobs(example, jobs, "status") == ["completed", "failed", "completed"]
    assert "out of memory" in example.job(jobs[1])["reason"]
    assert of_jobs(example, jobs, "crashes") == [0, 3, 0]


def test_time_limit_is_per_job_and_spares_neighbours(example: ExampleInstallation) -> None:
    jobs = put(example, "ok", "loop_forever", "ok", handler=FaultyBatchedHurried)
    start(example, TURNO_SHUTDOWN_GRACE_SECONDS="0.6")
    assert wait_until(lambda: ended(example, jobs), within=30)
    assert of_jobs(example, jobs, "status") == ["completed", "failed", "completed"]
    assert example.job(jobs[1])["reason"] == "time limit of 1 s"
    assert of_jobs(example, jobs, "crashes") == [0, 3, 0]


def test_job_cancelled_by_force_costs_no_neighbour(example: ExampleInstallation) -> None:
    jobs = put(example, "ok", "wait_in_vain", "ok")
    start(example, TURNO_HEARTBEAT_SECONDS="0.2", TURNO_SHUTDOWN_GRACE_SECONDS="0.5")
    assert wait_until(lambda: shown(example), within=20)
    assert example.cancel(jobs[1]) == "requested"
    assert wait_until(lambda: ended(example, jobs), within=20)
    assert of_jobs(example, jobs, "status") == ["completed", "cancelled", "completed"]
    assert [example.job(jobs[0])["crashes"], example.job(jobs[2])["crashes"]] == [0, 0]


def test_a_stop_hands_the_whole_batch_back_uncounted(example: ExampleInstallation) -> None:
    jobs = put(example, "ok", "wait_in_vain", "ok")
    pool = start(example, TURNO_SHUTDOWN_GRACE_SECONDS="0.3")
    assert wait_until(lambda: shown(example), within=20)
    pool.terminate()
    assert pool.wait(20) == 0
    assert of_jobs(example, jobs, "status") == ["pending"] * 3
    assert of_jobs(example, jobs, "crashes") == [0] * 3
    assert example.rows("SELECT 1 FROM customers WHERE country = 'batched'") == []


def test_a_batch_that_slept_through_its_rescue_writes_nothing(example: ExampleInstallation) -> None:
    jobs = put(example, "ok", "stop_self", "ok")
    old = start(example)
    assert wait_until(lambda: shown(example), within=20)
    (child,) = [pid for pid in children(old.pid) if os.getpgid(pid) == pid]
    assert wait_until(lambda: stopped(child), within=20)
    os.kill(old.pid, signal.SIGSTOP)
    example.rows("UPDATE turno.workers SET alive_at = alive_at - interval '1 hour'")
    example.sweep()
    assert of_jobs(example, jobs, "status") == ["pending"] * 3
    example.time_passes()
    start(example)
    assert wait_until(lambda: ended(example, jobs), within=30)
    finished = [example.job(job_id) for job_id in jobs]
    os.kill(child, signal.SIGCONT)
    assert old.stdout is not None
    assert any("was not committed" in line for line in old.stdout)
    os.kill(old.pid, signal.SIGCONT)
    assert old.wait(20) == 1
    assert [example.job(job_id) for job_id in jobs] == finished
    assert_done_once(example, jobs)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"
