"""A job ends as a named outcome despite every misbehaviour of its handler, keeps nothing half-done, and the next job
runs."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.installation import ROOT, ExampleInstallation
from tests.misbehaving_handlers import Faulty, FaultyBrief, FaultyHurried, FaultyOnce, FaultySmall
from turno.jobs.handler import JobHandler
from turno.testing.wait import wait_until


@pytest.fixture(autouse=True)
def faulty(example: ExampleInstallation) -> None:
    example.faulty = True


def run(
    example: ExampleInstallation, how: str, handler: type[JobHandler[Any]] = Faulty, **payload: Any
) -> dict[str, Any]:
    job_id = example.enqueue({"how": how} | payload, handler=handler)
    after = example.enqueue({"how": "ok"}, handler=Faulty)
    log = example.work(job_id)
    assert example.job(after)["status"] == "completed", log
    return example.job(job_id) | {"log": log}


def written(example: ExampleInstallation, country: str = "written") -> int:
    return len(example.rows("SELECT 1 FROM customers WHERE country = %s", country))


@pytest.mark.parametrize(
    ("how", "handler", "cause"),
    [
        ("sys_exit_0", Faulty, "exited with status 0 without finishing"),
        ("os_exit_0", Faulty, "exited with status 0 without finishing"),
        ("segfault", Faulty, "killed by SIGSEGV"),
        ("kill_self", Faulty, "killed by SIGKILL"),
        ("exhaust_memory", FaultySmall, "out of memory"),
    ],
)
def test_job_killing_its_process_is_dead_at_third_crash(
    example: ExampleInstallation, how: str, handler: type[JobHandler[Any]], cause: str
) -> None:
    job = run(example, how, handler)
    assert (job["status"], job["crashes"], job["errors"], job["attempt"]) == ("failed", 3, 0, 3), job["log"]
    assert cause in job["reason"]
    (letter,) = example.rows("SELECT * FROM background_jobs_dead_letter WHERE job_id = %s", job["id"])
    assert cause in letter["cause"]
    assert [attempt["outcome"] for attempt in letter["attempts"]] == ["crashed"] * 3


@pytest.mark.parametrize("how", ["loop_forever", "block_the_loop", "catastrophic_pattern", "sleep_in_sql"])
def test_a_job_past_its_time_limit_is_ended_from_outside(example: ExampleInstallation, how: str) -> None:
    example.extra["TURNO_SHUTDOWN_GRACE_SECONDS"] = "0.6"
    job = run(example, how, FaultyHurried)
    assert (job["status"], job["crashes"]) == ("failed", 3), job["log"]
    assert job["reason"] == "time limit of 1 s"
    assert (
        example.rows("SELECT 1 FROM pg_stat_activity WHERE query LIKE '%%pg_sleep(600)%%' AND pid <> pg_backend_pid()")
        == []
    )


@pytest.mark.parametrize("how", ["loop_forever", "sleep_in_sql"])
def test_transaction_far_too_long_is_ended_from_outside(example: ExampleInstallation, how: str) -> None:
    example.extra["TURNO_SHUTDOWN_GRACE_SECONDS"] = "0.6"
    job = run(example, how, FaultyBrief)
    assert (job["status"], job["crashes"]) == ("failed", 3), job["log"]
    assert job["reason"] == "a transaction was open for more than 1.5 s"


def test_transaction_open_too_long_is_not_completed(example: ExampleInstallation) -> None:
    example.extra["TURNO_SHUTDOWN_GRACE_SECONDS"] = "0.6"
    job = run(example, "sleep_in_sql", FaultyBrief, number=5)
    assert (job["status"], job["reason"]) == ("failed", "a transaction was open for more than 1.5 s"), job["log"]


def test_job_may_last_longer_than_one_transaction(example: ExampleInstallation) -> None:
    job = run(example, "commit_often", FaultyBrief, number=7)
    assert (job["status"], job["crashes"]) == ("completed", 0), job["log"]


def test_a_job_that_takes_a_little_too_long_is_not_completed(example: ExampleInstallation) -> None:
    example.extra["TURNO_SHUTDOWN_GRACE_SECONDS"] = "0.6"
    job = run(example, "sleep_in_sql", FaultyHurried, number=4)
    assert (job["status"], job["reason"]) == ("failed", "time limit of 1 s"), job["log"]


@pytest.mark.parametrize(
    ("how", "name", "says"),
    [
        ("raw_commit", "HandlerMisuse", "ended the job's transaction itself"),
        ("raw_rollback", "HandlerMisuse", "ended the job's transaction itself"),
        ("commit", "HandlerMisuse", "must not commit"),
        ("rollback", "HandlerMisuse", "must not roll back"),
        ("close", "HandlerMisuse", "must not close"),
        ("permanent", "PermanentFailure", "never again"),
        ("nan", "InvalidResult", "a: is no finite number"),
        ("nul", "InvalidResult", "a: contains the character U+0000"),
        ("surrogate", "InvalidResult", "surrogate"),
        ("a_complex", "InvalidResult", "a: is a complex, which JSON cannot represent"),
        ("too_large", "InvalidResult", "at most 262144"),
        ("no_dict", "InvalidResult", "returns a dict"),
        ("skip_the_context", "HandlerMisuse", "with step as item"),
    ],
)
def test_permanent_error_fails_at_once_by_name(example: ExampleInstallation, how: str, name: str, says: str) -> None:
    job = run(example, how)
    assert (job["status"], job["attempt"], job["errors"]) == ("failed", 1, 1), job["log"]
    assert job["error"]["class"] == name
    assert says in job["error"]["message"]
    if how != "raw_commit":
        assert written(example) == 0


@pytest.mark.parametrize(
    ("how", "name"),
    [
        ("error", "ValueError"),
        ("unpicklable", "TwoArguments"),
        ("nul_in_error", "ValueError"),
        ("leave_aborted", "InFailedSqlTransaction"),
        ("end_own_backend", "AdminShutdown"),
    ],
)
def test_an_error_is_tried_four_times_and_leaves_nothing(example: ExampleInstallation, how: str, name: str) -> None:
    job = run(example, how)
    assert (job["status"], job["attempt"], job["errors"], job["crashes"]) == ("failed", 4, 4, 0), job["log"]
    assert job["error"]["class"] == name
    assert job["reason"] == "no attempts left"
    assert written(example) == 0
    outcomes = example.rows("SELECT outcome FROM background_job_attempts WHERE job_id = %s", job["id"])
    assert [row["outcome"] for row in outcomes] == ["error"] * 4


def test_handler_without_retry_fails_at_first_error(example: ExampleInstallation) -> None:
    job = run(example, "error", FaultyOnce)
    assert (job["status"], job["attempt"]) == ("failed", 1)
    assert "Traceback" in job["error"]["traceback"]


@pytest.mark.parametrize("how", ["reschedule_after", "reschedule_at"])
def test_a_rescheduled_job_waits_uncounted_and_keeps_no_work(example: ExampleInstallation, how: str) -> None:
    job = run(example, how)
    assert (job["status"], job["errors"], job["crashes"], job["attempt"]) == ("pending", 0, 0, 1)
    ticket = example.ticket(job["id"])
    assert ticket is not None
    assert ticket["state"] == "scheduled"
    assert ticket["run_at"] == job["run_at"] > job["created_at"]
    assert written(example) == 0


def test_a_handler_may_cancel_its_own_job(example: ExampleInstallation) -> None:
    job = run(example, "cancel")
    assert (job["status"], job["reason"]) == ("cancelled", "nothing to do")
    assert written(example) == 0


def test_a_collision_with_another_transaction_uses_up_no_attempt(example: ExampleInstallation) -> None:
    job = run(example, "deadlock_once")
    assert (job["status"], job["attempt"], job["errors"]) == ("completed", 1, 0), job["log"]
    assert written(example) == 1


def test_deadlocked_jobs_end_at_their_first_attempt(example: ExampleInstallation, tmp_path: Path) -> None:
    example.backend = "pool"
    first, second = (row["id"] for row in example.rows("SELECT id FROM customers ORDER BY id LIMIT 2"))
    jobs = [
        example.enqueue({"how": "deadlock", "text": f"{mine} {other}"}, handler=Faulty)
        for mine, other in ((first, second), (second, first))
    ]
    example.start_pool(TURNO_MAX_CHILDREN="2", MEET=str(tmp_path))
    assert wait_until(lambda: all(example.job(job_id)["finished_at"] for job_id in jobs), within=30)
    seen = [example.job(job_id) for job_id in jobs]
    assert [(job["status"], job["attempt"], job["errors"]) for job in seen] == [("completed", 1, 0)] * 2


def test_lock_timeout_is_retried(example: ExampleInstallation, tmp_path: Path) -> None:
    example.backend = "pool"
    (customer,) = example.rows("SELECT id FROM customers ORDER BY id LIMIT 1")
    job_id = example.enqueue({"how": "wait_for_a_lock", "text": customer["id"]}, handler=Faulty)
    with example.admin.transaction():
        example.rows("SELECT 1 FROM customers WHERE id = %s FOR UPDATE", customer["id"])
        example.start_pool(MEET=str(tmp_path))
        assert wait_until((tmp_path / "in vain").exists, within=20)
    assert wait_until(lambda: example.job(job_id)["finished_at"] is not None, within=20)
    job = example.job(job_id)
    assert (job["status"], job["attempt"], job["errors"]) == ("completed", 1, 0)


def test_processes_of_a_handler_end_with_it(example: ExampleInstallation) -> None:
    job = run(example, "leave_a_grandchild")
    assert job["status"] == "completed"
    state = Path(f"/proc/{job['result']['pid']}/stat")
    assert not state.exists() or state.read_text().split()[2] == "Z"


@pytest.mark.parametrize("end", ["ok", "no such deed", "sys_exit_0"])
def test_forked_copy_of_a_child_touches_nothing(example: ExampleInstallation, end: str) -> None:
    job = run(example, "fork_twice_and_return", text=end)
    assert (job["status"], job["attempt"], job["result"]) == ("completed", 1, {"copy": None}), job["log"]
    assert written(example) == 1


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("backend", ["exec", "pool"])
@pytest.mark.parametrize("end", ["ok", "error", "os_exit_0", "kill_self", "segfault"])
def test_daemon_leaves_nothing_after_any_end_of_its_job(
    example: ExampleInstallation, tmp_path: Path, end: str, backend: str
) -> None:
    example.backend = backend
    example.extra["ESCAPED"] = str(tmp_path / "pid")
    job_id = example.enqueue({"how": "escape", "text": end}, handler=FaultyOnce)
    if backend == "exec":
        example.work(job_id)
    else:
        example.start_pool(TURNO_MAX_CHILDREN="1")
    escaped = tmp_path / "pid"
    assert wait_until(lambda: escaped.exists() and escaped.read_text() != "", within=20)
    assert wait_until(lambda: gone(int(escaped.read_text())), within=10)
    after = example.enqueue({"how": "ok"}, handler=Faulty)
    if backend == "exec":
        example.work(after)
    assert wait_until(lambda: example.job(after)["status"] == "completed", within=20)


def test_daemon_ends_with_time_limit_and_other_children_stay(example: ExampleInstallation, tmp_path: Path) -> None:
    example.backend = "pool"
    busy = example.enqueue({"how": "wait_with_a_process"}, handler=Faulty)
    pool = example.start_pool(TURNO_MAX_CHILDREN="2", TURNO_SHUTDOWN_GRACE_SECONDS="0.6", ESCAPED=str(tmp_path / "pid"))
    assert wait_until(lambda: example.rows("SELECT 1 FROM background_job_checkpoints") != [], within=20)
    (kept,) = example.rows("SELECT state FROM background_job_checkpoints")
    overdue = example.enqueue({"how": "escape", "text": "loop_forever"}, handler=FaultyHurried)
    assert wait_until((tmp_path / "pid").exists, within=20)
    assert wait_until(lambda: example.job(overdue)["crashes"] >= 1, within=20)
    assert wait_until(lambda: gone(int((tmp_path / "pid").read_text())), within=10)
    assert not gone(kept["state"])
    assert example.job(busy)["status"] == "running"
    assert pool.poll() is None
    example.cancel(busy)
    assert wait_until(lambda: example.job(busy)["status"] == "cancelled", within=20)
    assert gone(kept["state"])


ADOPT = """
import os, subprocess, sys
from turno.queues.interface import LAUNCHED
from turno.runner import processes
processes.adopt_orphans()
LEAVE = "import os, subprocess, sys; print(subprocess.Popen(['sleep', '60'], start_new_session=True, stdout=2).pid)"
FORK = "import os, sys, time; pid = os.fork(); print(pid, flush=True) if pid else (os.close(1), time.sleep(60))"
def orphan(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return int(done.stdout)
launch = LEAVE.replace("'sleep', '60'", "sys.executable, *%r, '-c', 'import time; time.sleep(60)'" % (LAUNCHED,))
launched, stray, spared = (orphan(sys.executable, "-c", code) for code in (launch, LEAVE, LEAVE))
fork = orphan(sys.executable, *LAUNCHED, "-c", FORK)
assert processes.children() == {launched, stray, spared, fork}
processes.end_leftovers(spare={spared})
assert processes.children() == {launched, spared}
os.kill(launched, 9)
os.kill(spared, 9)
"""


def test_launched_workers_survive_adoption_clean_up() -> None:
    """Maintenance of a pool may launch workers for the exec backend; orphaned, they become the pool's children."""
    with subprocess.Popen([sys.executable, "-c", ADOPT], cwd=ROOT, start_new_session=True) as supervisor:
        assert supervisor.wait(20) == 0


@pytest.fixture(autouse=True)
def no_customers(example: ExampleInstallation) -> None:
    example.rows("DELETE FROM customers WHERE company_name = 'Faulty'")
