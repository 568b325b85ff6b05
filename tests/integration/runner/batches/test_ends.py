"""Jobs of a batched type that share a transaction: each has the end it would have alone, independent of its
neighbours."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.batch_in_process import claim_batches_in_process, execute_batch_in_process
from tests.installation import ExampleInstallation
from tests.integration.runner.batches.batch import claim, put, run, written
from tests.misbehaving_handlers import HOOKS, RUNS, FaultyAlone, FaultyBatched
from turno.jobs.job_context import JobContext
from turno.jobs.outcome import RetryPolicy
from turno.runner import executor


def test_they_share_a_transaction_and_keep_their_own_history(example: ExampleInstallation) -> None:
    jobs = run(example, *["transaction"] * 8)
    assert len({job["result"]["transaction"] for job in jobs}) == 1
    assert {(job["status"], job["attempt"], job["errors"], job["crashes"]) for job in jobs} == {("completed", 1, 0, 0)}
    assert written(example) == {f"G{n}" for n in range(8)}
    ids = {job["id"] for job in jobs}
    attempts = example.rows("SELECT job_id, outcome, worker FROM background_job_attempts")
    assert {(row["job_id"], row["outcome"], row["worker"]) for row in attempts} == {
        (job_id, "completed", "test") for job_id in ids
    }
    events = example.rows("SELECT job_id, new_status FROM background_job_events ORDER BY id")
    assert all(
        [row["new_status"] for row in events if row["job_id"] == job_id] == ["pending", "completed"] for job_id in ids
    )
    notifications = example.rows("SELECT job_id, kind, data ->> 'type' AS type FROM notifications")
    assert {(row["job_id"], row["kind"], row["type"]) for row in notifications} == {
        (job_id, "completed", "faulty_batched") for job_id in ids
    }
    assert example.rows("SELECT 1 FROM turno.tickets") == []
    assert len(example.rows("SELECT 1 FROM turno.outcomes WHERE outcome = 'completed'")) == 8


def test_each_job_of_a_batch_keeps_its_own_end(example: ExampleInstallation) -> None:
    deeds = ["ok", "error", "permanent", "reschedule_after", "cancel", "nan", "leave_aborted", "ok"]
    jobs = run(example, *deeds)
    ends = [(job["status"], job["reason"]) for job in jobs]
    assert ends == [
        ("completed", None),
        ("pending", "an attempt failed"),
        ("failed", "failed for good"),
        ("pending", "rescheduled by its handler"),
        ("cancelled", "nothing to do"),
        ("failed", "failed for good"),
        ("pending", "an attempt failed"),
        ("completed", None),
    ]
    assert [job["errors"] for job in jobs] == [0, 1, 1, 0, 0, 1, 1, 0]
    assert written(example) == {"G0", "G7"}
    assert len(example.rows("SELECT 1 FROM background_jobs_dead_letter")) == 2
    assert len(example.rows("SELECT 1 FROM notifications")) == 5
    assert example.rows("SELECT 1 FROM background_job_attempts WHERE finished_at IS NULL") == []


def test_writes_of_a_failed_job_are_undone(example: ExampleInstallation) -> None:
    jobs = run(example, "ok", "error", "ok")
    assert [job["status"] for job in jobs] == ["completed", "pending", "completed"]
    assert written(example) == {"G0", "G2"}


def test_aborted_transaction_costs_neighbours_no_rerun(example: ExampleInstallation) -> None:
    jobs = run(example, "ok", "leave_aborted", "ok")
    assert [job["status"] for job in jobs] == ["completed", "pending", "completed"]
    assert set(RUNS.values()) == {1}


def test_a_payload_that_no_longer_fits_fails_alone(example: ExampleInstallation) -> None:
    jobs = put(example, "ok", "ok", "ok")
    example.rows("""UPDATE background_jobs SET payload = '{"unheard_of": 1}' WHERE id = %s""", jobs[1])
    execute_batch_in_process(example, claim(example))
    assert [example.job(job_id)["status"] for job_id in jobs] == ["completed", "failed", "completed"]
    assert "unheard_of" in example.job(jobs[1])["error"]["message"]


@pytest.mark.parametrize("why", ["cancelled on request", "expired"])
def test_unwanted_job_does_not_run(example: ExampleInstallation, why: str) -> None:
    jobs = put(example, "ok", "ok", "ok", expires_at=datetime.now(UTC) + timedelta(hours=1))
    claims = claim(example)
    if why == "expired":
        example.rows("UPDATE background_jobs SET expires_at = now() - interval '1 s' WHERE id = %s", jobs[1])
    else:
        example.rows("UPDATE background_jobs SET cancel_requested_at = now() WHERE id = %s", jobs[1])
    execute_batch_in_process(example, claims)
    assert [example.job(job_id)["status"] for job_id in jobs] == ["completed", "cancelled", "completed"]
    assert example.job(jobs[1])["reason"] == why
    assert written(example) == {"G0", "G2"}


def test_cancelled_job_of_batch_lets_neighbours_complete(example: ExampleInstallation) -> None:
    jobs = put(example, "ok", "hook", "ok")

    def cancel(job: JobContext) -> None:
        assert example.cancel(job.job_id) == "requested"
        job.check_cancelled()

    HOOKS["G1"] = cancel
    execute_batch_in_process(example, claim(example))
    assert [example.job(job_id)["status"] for job_id in jobs] == ["completed", "cancelled", "completed"]
    assert written(example) == {"G0", "G2"}


def test_claimed_job_is_stopped_and_neighbours_run_once(example: ExampleInstallation) -> None:
    """Ending it at once would refuse the commit that it shares with its neighbours."""
    jobs = put(example, "ok", "hook", "ok")
    HOOKS["G1"] = lambda job: requested.append(example.cancel(job.job_id))
    requested: list[str] = []
    execute_batch_in_process(example, claim(example))
    assert requested == ["requested"]
    assert [example.job(job_id)["status"] for job_id in jobs] == ["completed"] * 3
    assert set(RUNS.values()) == {1}


def test_collision_of_one_is_retried_after_neighbours_commit(example: ExampleInstallation) -> None:
    jobs = run(example, "ok", "collide_once", "ok")
    assert [job["status"] for job in jobs] == ["completed"] * 3
    assert (jobs[1]["result"], jobs[1]["errors"], jobs[1]["attempt"]) == ({"runs": 2}, 0, 1)
    assert written(example) == {"G0", "G1", "G2"}


def test_refusal_at_commit_fails_the_job_that_wrote_it(example: ExampleInstallation) -> None:
    example.rows("CREATE TABLE refused_at_commit (id integer UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    example.rows(f"GRANT INSERT ON refused_at_commit TO {example.one.handler_role}")
    try:
        jobs = run(example, "ok", "defer_a_refusal", "ok")
    finally:
        example.rows("DROP TABLE refused_at_commit")
    assert [job["status"] for job in jobs] == ["completed", "pending", "completed"]
    assert (jobs[1]["errors"], jobs[1]["error"]["sqlstate"]) == (1, "23505")
    assert written(example) == {"G0", "G2"}


def test_alone_handler_has_a_separate_commit(example: ExampleInstallation) -> None:
    jobs = [example.enqueue({"how": "transaction", "text": f"G{n}"}, handler=FaultyAlone) for n in range(3)]
    (claims,) = claim_batches_in_process(example)
    execute_batch_in_process(example, claims)
    result = [example.job(job_id) for job_id in jobs]
    assert len({job["result"]["transaction"] for job in result}) == 3
    assert len({job["result"]["backend"] for job in result}) == 1


def test_never_retried_handler_has_a_separate_commit(
    example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trouble of another job would have its handler run a second time."""
    monkeypatch.setattr(FaultyBatched, "retry", RetryPolicy.never())
    jobs = run(example, *["transaction"] * 3)
    assert len({job["result"]["transaction"] for job in jobs}) == 3


def test_long_job_is_the_last_of_its_commit(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "SHARED_SECONDS", 0.0)
    jobs = run(example, *["transaction"] * 3)
    assert len({job["result"]["transaction"] for job in jobs}) == 3


def test_savepoint_is_lazy_and_undoes_only_its_own_job(
    example: ExampleInstallation,
) -> None:
    jobs = [example.enqueue({"how": how, "text": text}, handler=FaultyBatched)
            for how, text in (("ok", "G0"), ("ok", ""), ("error", "G2"), ("ok", "G3"))]  # fmt: skip
    execute_batch_in_process(example, claim(example))
    assert [example.job(job_id)["status"] for job_id in jobs] == ["completed", "completed", "pending", "completed"]
    assert written(example) == {"G0", "G3"}


def test_progress_of_one_is_shown(example: ExampleInstallation) -> None:
    jobs = run(example, "progress", "ok")
    (row,) = example.rows("SELECT job_id, done, total, message FROM background_job_progress")
    assert row == {"job_id": jobs[0]["id"], "done": 2, "total": 2, "message": "half"}


def test_the_session_s_python_side_is_clean_for_each(example: ExampleInstallation) -> None:
    jobs = run(example, "dict_rows", "dict_rows", "dict_rows")
    assert [job["result"] for job in jobs] == [{"row": [1]}] * 3
