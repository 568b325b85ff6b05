"""Whatever a handler does, its job ends as a named outcome, keeps nothing half-done, and the next job runs."""

from pathlib import Path
from typing import Any

import pytest

from app.jobs.handler import JobHandler
from tests.odd_handlers import Odd, OddBrief, OddHurried, OddOnce, OddSmall
from tests.world import World


@pytest.fixture(autouse=True)
def odd(world: World) -> None:
    world.odd = True


def run(world: World, how: str, handler: type[JobHandler[Any]] = Odd, **payload: Any) -> dict[str, Any]:
    job_id = world.enqueue({"how": how} | payload, handler=handler)
    after = world.enqueue({"how": "ok"}, handler=Odd)
    log = world.work(job_id)
    assert world.job(after)["status"] == "completed", log
    return world.job(job_id) | {"log": log}


def written(world: World, country: str = "written") -> int:
    return len(world.rows("SELECT 1 FROM customers WHERE country = %s", country))


@pytest.mark.parametrize(
    ("how", "handler", "cause"),
    [
        ("sys_exit_0", Odd, "exited with status 0 without finishing"),
        ("os_exit_0", Odd, "exited with status 0 without finishing"),
        ("segfault", Odd, "killed by SIGSEGV"),
        ("kill_self", Odd, "killed by SIGKILL"),
        ("exhaust_memory", OddSmall, "out of memory"),
    ],
)
def test_a_job_that_kills_its_process_is_dead_lettered_at_the_third_crash(
    world: World, how: str, handler: type[JobHandler[Any]], cause: str
) -> None:
    job = run(world, how, handler)
    assert (job["status"], job["crashes"], job["errors"], job["attempt"]) == ("failed", 3, 0, 3), job["log"]
    assert cause in job["reason"]
    (letter,) = world.rows("SELECT * FROM background_jobs_dead_letter WHERE job_id = %s", job["id"])
    assert cause in letter["cause"]
    assert [attempt["outcome"] for attempt in letter["attempts"]] == ["crashed"] * 3


@pytest.mark.parametrize("how", ["loop_forever", "catastrophic_pattern", "sleep_in_sql"])
def test_a_job_past_its_time_limit_is_ended_from_outside(world: World, how: str) -> None:
    world.extra["KILL_AFTER_SECONDS"] = "0.1"
    job = run(world, how, OddHurried)
    assert (job["status"], job["crashes"]) == ("failed", 3), job["log"]
    assert job["reason"] == "time limit of 1 s"
    assert (
        world.rows("SELECT 1 FROM pg_stat_activity WHERE query LIKE '%%pg_sleep(600)%%' AND pid <> pg_backend_pid()")
        == []
    )


@pytest.mark.parametrize("how", ["loop_forever", "sleep_in_sql"])
def test_a_transaction_that_stays_open_too_long_is_ended_from_outside(world: World, how: str) -> None:
    world.extra["KILL_AFTER_SECONDS"] = "0.1"
    job = run(world, how, OddBrief)
    assert (job["status"], job["crashes"]) == ("failed", 3), job["log"]
    assert job["reason"] == "a transaction was open for more than 1.5 s"


def test_a_transaction_that_is_open_a_little_too_long_is_not_completed(world: World) -> None:
    world.extra["KILL_AFTER_SECONDS"] = "0.1"
    job = run(world, "sleep_in_sql", OddBrief, number=5)
    assert (job["status"], job["reason"]) == ("failed", "a transaction was open for more than 1.5 s"), job["log"]


def test_a_job_of_many_transactions_may_take_longer_than_one_of_them(world: World) -> None:
    job = run(world, "commit_often", OddBrief, number=7)
    assert (job["status"], job["crashes"]) == ("completed", 0), job["log"]


def test_a_job_that_takes_a_little_too_long_is_not_completed(world: World) -> None:
    world.extra["KILL_AFTER_SECONDS"] = "0.1"
    job = run(world, "sleep_in_sql", OddHurried, number=4)
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
        ("nan", "InvalidResult", "not plain JSON"),
        ("nul", "InvalidResult", "NUL"),
        ("surrogate", "InvalidResult", "surrogate"),
        ("a_set", "InvalidResult", "not plain JSON"),
        ("too_large", "InvalidResult", "at most 262144"),
        ("no_dict", "InvalidResult", "returns a dict"),
        ("skip_the_context", "HandlerMisuse", "with step as item"),
    ],
)
def test_what_trying_again_cannot_mend_fails_at_once_by_name(world: World, how: str, name: str, says: str) -> None:
    job = run(world, how)
    assert (job["status"], job["attempt"], job["errors"]) == ("failed", 1, 1), job["log"]
    assert job["error"]["class"] == name
    assert says in job["error"]["message"]
    if how != "raw_commit":
        assert written(world) == 0


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
def test_an_error_is_tried_four_times_and_leaves_nothing(world: World, how: str, name: str) -> None:
    job = run(world, how)
    assert (job["status"], job["attempt"], job["errors"], job["crashes"]) == ("failed", 4, 4, 0), job["log"]
    assert job["error"]["class"] == name
    assert job["reason"] == "no attempts left"
    assert written(world) == 0
    outcomes = world.rows("SELECT outcome FROM background_job_attempts WHERE job_id = %s", job["id"])
    assert [row["outcome"] for row in outcomes] == ["error"] * 4


def test_a_handler_that_is_never_retried_fails_at_its_first_error(world: World) -> None:
    job = run(world, "error", OddOnce)
    assert (job["status"], job["attempt"]) == ("failed", 1)
    assert "Traceback" in job["error"]["traceback"]


@pytest.mark.parametrize("how", ["reschedule_after", "reschedule_at"])
def test_a_rescheduled_job_waits_uncounted_and_keeps_no_work(world: World, how: str) -> None:
    job = run(world, how)
    assert (job["status"], job["errors"], job["crashes"], job["attempt"]) == ("pending", 0, 0, 1)
    ticket = world.ticket(job["id"])
    assert ticket is not None
    assert ticket["state"] == "scheduled"
    assert ticket["run_at"] == job["run_at"] > job["created_at"]
    assert written(world) == 0


def test_a_handler_may_cancel_its_own_job(world: World) -> None:
    job = run(world, "cancel")
    assert (job["status"], job["reason"]) == ("cancelled", "nothing to do")
    assert written(world) == 0


def test_a_collision_with_another_transaction_uses_up_no_attempt(world: World) -> None:
    job = run(world, "deadlock_once")
    assert (job["status"], job["attempt"], job["errors"]) == ("completed", 1, 0), job["log"]
    assert written(world) == 1


def test_what_a_handler_started_ends_with_it(world: World) -> None:
    job = run(world, "leave_a_grandchild")
    assert job["status"] == "completed"
    state = Path(f"/proc/{job['result']['pid']}/stat")
    assert not state.exists() or state.read_text().split()[2] == "Z"


@pytest.fixture(autouse=True)
def no_customers(world: World) -> None:
    world.rows("DELETE FROM customers WHERE company_name = 'Odd'")
