"""Jobs of a batched type that share a transaction: each has the end it would have alone, independent of its
neighbours."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.batch_here import claim_batches_here, execute_batch_here
from tests.installation import ExampleInstallation
from tests.integration.runner.batches.batch import claim, put, run, written
from tests.misbehaving_handlers import HOOKS, RUNS, OddAlone, OddBatched
from turno.jobs.job_context import JobContext
from turno.jobs.outcome import RetryPolicy
from turno.runner import executor


def test_they_share_a_transaction_and_keep_their_own_history(world: ExampleInstallation) -> None:
    jobs = run(world, *["transaction"] * 8)
    assert len({job["result"]["transaction"] for job in jobs}) == 1
    assert {(job["status"], job["attempt"], job["errors"], job["crashes"]) for job in jobs} == {("completed", 1, 0, 0)}
    assert written(world) == {f"G{n}" for n in range(8)}
    ids = {job["id"] for job in jobs}
    attempts = world.rows("SELECT job_id, outcome, worker FROM background_job_attempts")
    assert {(row["job_id"], row["outcome"], row["worker"]) for row in attempts} == {
        (one, "completed", "test") for one in ids
    }
    events = world.rows("SELECT job_id, new_status FROM background_job_events ORDER BY id")
    assert all([row["new_status"] for row in events if row["job_id"] == one] == ["pending", "completed"] for one in ids)
    notifications = world.rows("SELECT job_id, kind, data ->> 'type' AS type FROM notifications")
    assert {(row["job_id"], row["kind"], row["type"]) for row in notifications} == {
        (one, "completed", "odd_batched") for one in ids
    }
    assert world.rows("SELECT 1 FROM turno.tickets") == []
    assert len(world.rows("SELECT 1 FROM turno.outcomes WHERE outcome = 'completed'")) == 8


def test_each_job_of_a_batch_keeps_its_own_end(world: ExampleInstallation) -> None:
    deeds = ["ok", "error", "permanent", "reschedule_after", "cancel", "nan", "leave_aborted", "ok"]
    jobs = run(world, *deeds)
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
    assert written(world) == {"G0", "G7"}
    assert len(world.rows("SELECT 1 FROM background_jobs_dead_letter")) == 2
    assert len(world.rows("SELECT 1 FROM notifications")) == 5
    assert world.rows("SELECT 1 FROM background_job_attempts WHERE finished_at IS NULL") == []


def test_writes_of_a_failed_job_are_undone(world: ExampleInstallation) -> None:
    jobs = run(world, "ok", "error", "ok")
    assert [job["status"] for job in jobs] == ["completed", "pending", "completed"]
    assert written(world) == {"G0", "G2"}


def test_aborted_transaction_costs_neighbours_no_rerun(world: ExampleInstallation) -> None:
    jobs = run(world, "ok", "leave_aborted", "ok")
    assert [job["status"] for job in jobs] == ["completed", "pending", "completed"]
    assert set(RUNS.values()) == {1}


def test_a_payload_that_no_longer_fits_fails_alone(world: ExampleInstallation) -> None:
    jobs = put(world, "ok", "ok", "ok")
    world.rows("""UPDATE background_jobs SET payload = '{"unheard_of": 1}' WHERE id = %s""", jobs[1])
    execute_batch_here(world, claim(world))
    assert [world.job(job_id)["status"] for job_id in jobs] == ["completed", "failed", "completed"]
    assert "unheard_of" in world.job(jobs[1])["error"]["message"]


@pytest.mark.parametrize("why", ["cancelled on request", "expired"])
def test_unwanted_job_does_not_run(world: ExampleInstallation, why: str) -> None:
    jobs = put(world, "ok", "ok", "ok", expires_at=datetime.now(UTC) + timedelta(hours=1))
    claims = claim(world)
    if why == "expired":
        world.rows("UPDATE background_jobs SET expires_at = now() - interval '1 s' WHERE id = %s", jobs[1])
    else:
        world.rows("UPDATE background_jobs SET cancel_requested_at = now() WHERE id = %s", jobs[1])
    execute_batch_here(world, claims)
    assert [world.job(job_id)["status"] for job_id in jobs] == ["completed", "cancelled", "completed"]
    assert world.job(jobs[1])["reason"] == why
    assert written(world) == {"G0", "G2"}


def test_cancelled_job_of_batch_lets_neighbours_complete(world: ExampleInstallation) -> None:
    jobs = put(world, "ok", "hook", "ok")

    def cancel(job: JobContext) -> None:
        assert world.cancel(job.job_id) == "requested"
        job.check_cancelled()

    HOOKS["G1"] = cancel
    execute_batch_here(world, claim(world))
    assert [world.job(job_id)["status"] for job_id in jobs] == ["completed", "cancelled", "completed"]
    assert written(world) == {"G0", "G2"}


def test_claimed_job_is_stopped_and_neighbours_run_once(world: ExampleInstallation) -> None:
    """Ending it at once would refuse the commit that it shares with its neighbours."""
    jobs = put(world, "ok", "hook", "ok")
    HOOKS["G1"] = lambda job: asked.append(world.cancel(job.job_id))
    asked: list[str] = []
    execute_batch_here(world, claim(world))
    assert asked == ["requested"]
    assert [world.job(job_id)["status"] for job_id in jobs] == ["completed"] * 3
    assert set(RUNS.values()) == {1}


def test_collision_of_one_is_retried_after_neighbours_commit(world: ExampleInstallation) -> None:
    jobs = run(world, "ok", "collide_once", "ok")
    assert [job["status"] for job in jobs] == ["completed"] * 3
    assert (jobs[1]["result"], jobs[1]["errors"], jobs[1]["attempt"]) == ({"runs": 2}, 0, 1)
    assert written(world) == {"G0", "G1", "G2"}


def test_refusal_at_commit_fails_the_job_that_wrote_it(world: ExampleInstallation) -> None:
    world.rows("CREATE TABLE refused_at_commit (id integer UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    world.rows(f"GRANT INSERT ON refused_at_commit TO {world.one.handler_role}")
    try:
        jobs = run(world, "ok", "defer_a_refusal", "ok")
    finally:
        world.rows("DROP TABLE refused_at_commit")
    assert [job["status"] for job in jobs] == ["completed", "pending", "completed"]
    assert (jobs[1]["errors"], jobs[1]["error"]["sqlstate"]) == (1, "23505")
    assert written(world) == {"G0", "G2"}


def test_alone_handler_has_a_separate_commit(world: ExampleInstallation) -> None:
    jobs = [world.enqueue({"how": "transaction", "text": f"G{n}"}, handler=OddAlone) for n in range(3)]
    (claims,) = claim_batches_here(world)
    execute_batch_here(world, claims)
    found = [world.job(job_id) for job_id in jobs]
    assert len({job["result"]["transaction"] for job in found}) == 3
    assert len({job["result"]["backend"] for job in found}) == 1


def test_never_retried_handler_has_a_separate_commit(
    world: ExampleInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trouble of another job would have its handler run a second time."""
    monkeypatch.setattr(OddBatched, "retry", RetryPolicy.never())
    jobs = run(world, *["transaction"] * 3)
    assert len({job["result"]["transaction"] for job in jobs}) == 3


def test_long_job_is_the_last_of_its_commit(world: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "SHARED_SECONDS", 0.0)
    jobs = run(world, *["transaction"] * 3)
    assert len({job["result"]["transaction"] for job in jobs}) == 3


def test_savepoint_is_lazy_and_undoes_only_its_own_job(
    world: ExampleInstallation,
) -> None:
    jobs = [world.enqueue({"how": how, "text": text}, handler=OddBatched)
            for how, text in (("ok", "G0"), ("ok", ""), ("error", "G2"), ("ok", "G3"))]  # fmt: skip
    execute_batch_here(world, claim(world))
    assert [world.job(job_id)["status"] for job_id in jobs] == ["completed", "completed", "pending", "completed"]
    assert written(world) == {"G0", "G3"}


def test_progress_of_one_is_shown(world: ExampleInstallation) -> None:
    jobs = run(world, "progress", "ok")
    (row,) = world.rows("SELECT job_id, done, total, message FROM background_job_progress")
    assert row == {"job_id": jobs[0]["id"], "done": 2, "total": 2, "message": "half"}


def test_the_session_s_python_side_is_clean_for_each(world: ExampleInstallation) -> None:
    jobs = run(world, "dict_rows", "dict_rows", "dict_rows")
    assert [job["result"] for job in jobs] == [{"row": [1]}] * 3
