"""Jobs of a batch that end the transaction or the session without permission."""

import pytest

from tests.batch_in_process import execute_batch_in_process
from tests.installation import ExampleInstallation
from tests.integration.runner.batches.batch import claim, put, run, written
from tests.integration.runner.batches.test_lost_claims import take_away
from tests.misbehaving_handlers import HOOKS, RUNS
from turno.jobs.job_context import JobContext


def test_replaced_transaction_is_detected(example: ExampleInstallation) -> None:
    jobs = run(example, "ok", "commit_and_begin", "ok")
    assert [job["status"] for job in jobs] == ["failed", "failed", "completed"]
    assert {job["error"]["class"] for job in jobs[:2]} == {"HandlerMisuse"}
    assert RUNS[jobs[2]["id"]] == 2  # its first statement was refused


def test_replaced_transaction_of_last_job_is_detected(
    example: ExampleInstallation,
) -> None:
    jobs = run(example, "ok", "commit_and_begin")
    assert [(job["status"], job["error"]["class"]) for job in jobs] == [("failed", "HandlerMisuse")] * 2


@pytest.mark.parametrize("how", ["raw_commit", "raw_rollback", "release_savepoint"])
def test_one_that_ends_the_transaction_doubles_nothing(example: ExampleInstallation, how: str) -> None:
    jobs = run(example, "ok", "error", "ok", how, "ok")
    assert [job["status"] for job in jobs] == ["completed", "pending", "failed", "failed", "completed"]
    assert {job["error"]["class"] for job in jobs[2:4]} == {"HandlerMisuse"}
    assert [job["attempt"] for job in jobs] == [1] * 5
    assert {"G0", "G4"} <= written(example)


@pytest.mark.parametrize("how", ["commit", "rollback", "close"])
def test_driver_commit_is_refused_as_the_job_s_failure(example: ExampleInstallation, how: str) -> None:
    jobs = run(example, "ok", how, "ok")
    assert [job["status"] for job in jobs] == ["completed", "failed", "completed"]
    assert jobs[1]["error"]["class"] == "HandlerMisuse"


def test_broken_session_costs_only_its_job(example: ExampleInstallation) -> None:
    jobs = run(example, "ok", "end_own_backend", "ok")
    assert [job["status"] for job in jobs] == ["completed", "pending", "completed"]
    assert [job["errors"] for job in jobs] == [0, 1, 0]
    assert written(example) == {"G0", "G2"}


@pytest.mark.parametrize("position", ["first", "between", "last"])
@pytest.mark.parametrize("sends_first", [True, False])
def test_own_commit_takes_earlier_neighbours_along(
    example: ExampleInstallation, position: str, *, sends_first: bool
) -> None:
    """Kept statements are committed at once where the job has sent nothing, else with its own first commit."""
    order = {"first": ["hook", "ok", "ok"], "between": ["ok", "hook", "ok"], "last": ["ok", "ok", "hook"]}[position]
    jobs = put(example, *order)
    at = order.index("hook")
    if not sends_first:
        example.rows(
            "UPDATE background_jobs SET payload = payload - 'text' || '{\"text\": \"\"}' WHERE id = %s", jobs[at]
        )
    seen: list[list[str]] = []

    def checkpoint(job: JobContext) -> None:
        batch = job.each(["an item that may take its time"])
        assert [example.job(job_id)["status"] for job_id in jobs[:at]] == [
            "pending" if sends_first else "completed"
        ] * at
        for step in batch:
            with step:
                pass
        job.checkpoint("half")
        seen.append([example.job(job_id)["status"] for job_id in jobs])
        raise ValueError("after its checkpoint")

    HOOKS[f"G{at}" if sends_first else ""] = checkpoint
    execute_batch_in_process(example, claim(example))
    assert seen == [["completed"] * at + ["running"] + ["pending"] * (2 - at)]
    result = [example.job(job_id) for job_id in jobs]
    assert [job["status"] for job in result] == ["pending" if n == at else "completed" for n in range(3)]
    assert (result[at]["errors"], result[at]["attempt"]) == (1, 1)
    assert example.rows("SELECT state FROM background_job_checkpoints") == [{"state": "half"}]
    # Its own work before the checkpoint was committed with that.
    assert written(example) == {f"G{n}" for n in range(3) if n != at or sends_first}
    assert set(RUNS.values()) == {1}


def test_failure_before_own_commit_takes_no_neighbour(example: ExampleInstallation) -> None:
    jobs = put(example, "ok", "hook", "ok")

    def too_large(job: JobContext) -> None:
        job.checkpoint("x" * 2_000_000)

    HOOKS["G1"] = too_large
    execute_batch_in_process(example, claim(example))
    assert [example.job(job_id)["status"] for job_id in jobs] == ["completed", "failed", "completed"]
    assert written(example) == {"G0", "G2"}


def test_collision_in_own_commit_reruns_job_and_neighbours(
    example: ExampleInstallation,
) -> None:
    """The guilty job cannot be determined: the claim of the first is lost in the middle of the second."""
    jobs = put(example, "ok", "hook", "ok")

    def lose_and_commit(job: JobContext) -> None:
        HOOKS["G1"] = lambda _job: None
        take_away(example, jobs[0], later=True)
        job.checkpoint("half")

    HOOKS["G1"] = lose_and_commit
    execute_batch_in_process(example, claim(example))
    assert [example.job(job_id)["status"] for job_id in jobs] == ["pending", "completed", "completed"]
    assert written(example) == {"G1", "G2"}
