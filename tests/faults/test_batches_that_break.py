"""A batch with a process that dies, hangs, is stopped or comes back too late: nothing lost, nothing doubled."""

import os
import signal
import subprocess
from pathlib import Path
from uuid import UUID

import pytest

from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import OddBatched, OddBatchedHurried, OddSmall
from turno.servers.wait import wait_until


@pytest.fixture(autouse=True)
def odd_pool(world: ExampleInstallation) -> None:
    world.registry = "tests.larger_batches:REGISTRY"
    world.backend = "pool"
    world.rows("DELETE FROM customers WHERE company_name = 'Odd'")


def put(world: ExampleInstallation, *deeds: str, handler: type[OddBatched] = OddBatched) -> list[UUID]:
    return [world.enqueue({"how": how, "text": f"G{n}"}, handler=handler) for n, how in enumerate(deeds)]


def start(world: ExampleInstallation, **extra: str) -> subprocess.Popen[str]:
    patient = {"JOBS": "8", "LONG": "60", "TOGETHER": "60"}
    return world.start_pool(TURNO_MIN_CHILDREN="1", TURNO_MAX_CHILDREN="1", **patient, **extra)


def ended(world: ExampleInstallation, jobs: list[UUID]) -> bool:
    return all(world.job(job_id)["finished_at"] for job_id in jobs)


def shown(world: ExampleInstallation) -> bool:
    """Say whether one of the jobs has shown its progress."""
    return world.rows("SELECT 1 FROM background_job_progress") != []


def of_jobs(world: ExampleInstallation, jobs: list[UUID], column: str) -> list[object]:
    return [world.job(job_id)[column] for job_id in jobs]


def assert_done_once(world: ExampleInstallation, jobs: list[UUID]) -> None:
    """Each customer was made once, by the attempt that completed its job; the index on their ids allows no second."""
    assert of_jobs(world, jobs, "status") == ["completed"] * len(jobs)
    made = world.rows("SELECT id FROM customers WHERE country = 'batched' ORDER BY id")
    assert [row["id"] for row in made] == [f"G{n}" for n in range(len(jobs))]
    assert len(world.rows("SELECT 1 FROM notifications")) == len(jobs)
    assert world.rows("SELECT 1 FROM background_job_attempts WHERE finished_at IS NULL") == []
    assert world.rows("SELECT 1 FROM turno.tickets") == []


STEPS = ["started", "member", "completing", "completed"]


@pytest.mark.parametrize("whom", [pytest.param("parent", marks=pytest.mark.deep), "both"])
@pytest.mark.parametrize("step", STEPS)
def test_a_kill_in_a_batch_s_life_neither_loses_nor_doubles(world: ExampleInstallation, step: str, whom: str) -> None:
    jobs = put(world, *["ok"] * 5)
    start(world, TURNO_CRASH_AT=f"{step}:{whom}").wait(30)
    world.time_passes()
    world.sweep()
    world.time_passes()
    start(world)
    assert wait_until(lambda: ended(world, jobs), within=30)
    assert_done_once(world, jobs)
    # The guilty job is unknown, so none is counted and each runs alone.
    assert of_jobs(world, jobs, "crashes") == [0] * 5


@pytest.mark.deep
@pytest.mark.parametrize("step", STEPS)
def test_a_kill_of_the_child_neither_loses_nor_doubles(world: ExampleInstallation, step: str) -> None:
    jobs = put(world, *["ok"] * 5)
    pool = start(world, TURNO_CRASH_AT=f"{step}:self")
    assert wait_until(lambda: ended(world, jobs) or any(of_jobs(world, jobs, "reason")), within=30)
    pool.kill()
    pool.wait(20)
    world.time_passes()
    world.sweep()
    world.time_passes()
    start(world)
    assert wait_until(lambda: ended(world, jobs), within=30)
    assert_done_once(world, jobs)


def test_child_killed_between_jobs_is_replaced_uncounted(world: ExampleInstallation) -> None:
    jobs = put(world, *["ok"] * 5)
    start(world, TURNO_CRASH_AT="member:self:3")
    assert wait_until(lambda: ended(world, jobs), within=30)
    assert_done_once(world, jobs)
    assert of_jobs(world, jobs, "crashes") == [0] * 5
    assert of_jobs(world, jobs, "attempt") == [2, 2, 2, 1, 1]


@pytest.mark.parametrize(
    "how",
    ["kill_self", *(pytest.param(how, marks=pytest.mark.deep) for how in ("sys_exit_0", "os_exit_0", "segfault"))],
)
def test_one_that_kills_its_worker_is_the_only_one_to_be_counted(world: ExampleInstallation, how: str) -> None:
    jobs = put(world, "ok", how, "ok", how, "ok")
    start(world)
    assert wait_until(lambda: ended(world, jobs), within=30)
    assert of_jobs(world, jobs, "status") == ["completed", "failed", "completed", "failed", "completed"]
    assert of_jobs(world, jobs, "crashes") == [0, 3, 0, 3, 0]


@pytest.mark.parametrize(
    ("end", "status", "crashes"),
    [("ok", "completed", 0), pytest.param("kill_self", "failed", 3, marks=pytest.mark.deep)],
)
def test_leftovers_of_a_job_end_before_its_neighbour(
    world: ExampleInstallation, tmp_path: Path, end: str, status: str, crashes: int
) -> None:
    deeds = [{"how": "ok"}, {"how": "escape", "text": end}, {"how": "look_for_the_escaped"}, {"how": "ok"}]
    jobs = [world.enqueue(deed, handler=OddBatched) for deed in deeds]
    start(world, ESCAPED=str(tmp_path / "pid"))
    assert wait_until(lambda: ended(world, jobs), within=30)
    assert of_jobs(world, jobs, "status") == ["completed", status, "completed", "completed"]
    assert of_jobs(world, jobs, "crashes") == [0, crashes, 0, 0]
    assert world.job(jobs[2])["result"] == {"runs": False}


@pytest.mark.deep
def test_one_that_leaks_all_memory_is_the_only_one_to_be_counted(world: ExampleInstallation) -> None:
    jobs = [world.enqueue({"how": how}, handler=OddSmall) for how in ("ok", "exhaust_memory", "ok")]
    start(world)
    assert wait_until(lambda: ended(world, jobs), within=30)
    assert of_jobs(world, jobs, "status") == ["completed", "failed", "completed"]
    assert "out of memory" in world.job(jobs[1])["reason"]
    assert of_jobs(world, jobs, "crashes") == [0, 3, 0]


def test_time_limit_is_per_job_and_spares_neighbours(world: ExampleInstallation) -> None:
    jobs = put(world, "ok", "loop_forever", "ok", handler=OddBatchedHurried)
    start(world, TURNO_SHUTDOWN_GRACE_SECONDS="0.6")
    assert wait_until(lambda: ended(world, jobs), within=30)
    assert of_jobs(world, jobs, "status") == ["completed", "failed", "completed"]
    assert world.job(jobs[1])["reason"] == "time limit of 1 s"
    assert of_jobs(world, jobs, "crashes") == [0, 3, 0]


def test_job_cancelled_by_force_costs_no_neighbour(world: ExampleInstallation) -> None:
    jobs = put(world, "ok", "wait_in_vain", "ok")
    start(world, TURNO_HEARTBEAT_SECONDS="0.2", TURNO_SHUTDOWN_GRACE_SECONDS="0.5")
    assert wait_until(lambda: shown(world), within=20)
    assert world.cancel(jobs[1]) == "requested"
    assert wait_until(lambda: ended(world, jobs), within=20)
    assert of_jobs(world, jobs, "status") == ["completed", "cancelled", "completed"]
    assert [world.job(jobs[0])["crashes"], world.job(jobs[2])["crashes"]] == [0, 0]


def test_a_stop_hands_the_whole_batch_back_uncounted(world: ExampleInstallation) -> None:
    jobs = put(world, "ok", "wait_in_vain", "ok")
    pool = start(world, TURNO_SHUTDOWN_GRACE_SECONDS="0.3")
    assert wait_until(lambda: shown(world), within=20)
    pool.terminate()
    assert pool.wait(20) == 0
    assert of_jobs(world, jobs, "status") == ["pending"] * 3
    assert of_jobs(world, jobs, "crashes") == [0] * 3
    assert world.rows("SELECT 1 FROM customers WHERE country = 'batched'") == []


def test_a_batch_that_slept_through_its_rescue_writes_nothing(world: ExampleInstallation) -> None:
    jobs = put(world, "ok", "stop_self", "ok")
    old = start(world)
    assert wait_until(lambda: shown(world), within=20)
    (child,) = [pid for pid in children(old.pid) if os.getpgid(pid) == pid]
    assert wait_until(lambda: stopped(child), within=20)
    os.kill(old.pid, signal.SIGSTOP)
    world.rows("UPDATE turno.workers SET alive_at = alive_at - interval '1 hour'")
    world.sweep()
    assert of_jobs(world, jobs, "status") == ["pending"] * 3
    world.time_passes()
    start(world)
    assert wait_until(lambda: ended(world, jobs), within=30)
    finished = [world.job(job_id) for job_id in jobs]
    os.kill(child, signal.SIGCONT)
    assert old.stdout is not None
    assert any("was not committed" in line for line in old.stdout)
    os.kill(old.pid, signal.SIGCONT)
    assert old.wait(20) == 1
    assert [world.job(job_id) for job_id in jobs] == finished
    assert_done_once(world, jobs)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"
