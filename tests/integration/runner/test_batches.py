"""Jobs of a batched type that share a transaction: each has the end it would have alone, whatever the others do."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn
from uuid import UUID

import psycopg
import pytest
from psycopg.pq import PipelineStatus

from tests import attempt_steps
from tests.batch_here import claim_batches_here, claimer_here, execute_batch_here
from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import HOOKS, RUNS, Odd, OddAlone, OddBatched
from tests.misdeeds.transactions import TRIES
from turno.jobs.claim import Batch
from turno.jobs.handler import JobContext, JobHandler
from turno.runner import executor
from turno.runner.executor import LOST
from turno.runner.session import HandlerConnection
from turno.runner.shared_state import SharedState
from turno.store.engine import recovery
from turno.store.pipeline import Statement
from turno.tenancy.identity.session import handler_session
from turno.testing.invariants import judge_of


@pytest.fixture(autouse=True)
def batched(world: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    world.backend = "pool"
    monkeypatch.setattr(executor, "SHARED_SECONDS", 60.0)  # whatever else the machine does
    TRIES.clear()
    RUNS.clear()
    HOOKS.clear()
    world.rows("DELETE FROM customers WHERE company_name = 'Odd'")
    yield
    with judge_of(world.url, world.one) as judge:
        # The handlers here have effects of their own, which the tests look at.
        assert [rule for rule in judge.broken() if not rule.startswith("I2: an end and its effect")] == []


def put(world: ExampleInstallation, *deeds: str, **options: Any) -> list[UUID]:
    """Enqueue a job for each deed; each makes a customer named for its place first."""
    return [world.enqueue({"how": how, "text": f"G{n}"}, handler=OddBatched, **options) for n, how in enumerate(deeds)]


def claim(world: ExampleInstallation) -> Batch:
    (claims,) = claim_batches_here(world)
    return claims


def run(world: ExampleInstallation, *deeds: str) -> list[dict[str, Any]]:
    """Run a job for each deed as one batch and return them."""
    jobs = put(world, *deeds)
    claims = claim(world)
    assert [one.job_id for one in claims] == jobs
    execute_batch_here(world, claims)
    return [world.job(job_id) for job_id in jobs]


def written(world: ExampleInstallation) -> set[str]:
    return {row["id"] for row in world.rows("SELECT id FROM customers WHERE country = 'batched'")}


def test_a_batch_takes_up_to_k_jobs_of_one_tenant_and_type_oldest_first(world: ExampleInstallation) -> None:
    jobs = put(world, *["ok"] * 11)
    world.enqueue({"how": "ok"}, handler=Odd)
    world.enqueue({"how": "ok"}, handler=OddBatched, tenant=world.other)
    mine = claimer_here()
    batches = [batch for _ in range(4) for batch in claim_batches_here(world, claimer=mine)]
    assert sorted((len(batch), batch[0].type, batch[0].login.slug) for batch in batches) == [
        (1, "odd", "suc0001"), (1, "odd_batched", "suc0002"), (3, "odd_batched", "suc0001"),
        (8, "odd_batched", "suc0001"),
    ]  # fmt: skip
    assert all(len({(one.type, one.tenant_id) for one in batch}) == 1 for batch in batches)
    assert len({one.token for batch in batches for one in batch}) == 13
    (whole,) = [batch for batch in batches if len(batch) == 8]
    assert [one.job_id for one in whole] == jobs[:8]


def test_free_children_are_given_work_before_any_gets_more_than_its_share(world: ExampleInstallation) -> None:
    put(world, *["ok"] * 6)
    assert sorted(map(len, claim_batches_here(world, slots=8))) == [1] * 6
    put(world, *["ok"] * 6)
    assert sorted(map(len, claim_batches_here(world, slots=2))) == [3, 3]


def test_a_batch_is_one_turn(world: ExampleInstallation) -> None:
    for tenant in world.tenants.values():
        for _ in range(16):
            world.enqueue({"how": "ok"}, handler=OddBatched, tenant=tenant)
    mine = claimer_here()
    order = [claim_batches_here(world, claimer=mine)[0][0].login.slug for _ in range(4)]
    assert order in (["suc0001", "suc0002"] * 2, ["suc0002", "suc0001"] * 2)


def test_short_and_long_jobs_of_two_tenants_have_as_many_turns(world: ExampleInstallation) -> None:
    """It is time that is shared out: a long job is a turn, and so are as many short ones as take no longer."""
    for _ in range(16):
        world.enqueue({"how": "ok"}, handler=OddBatched)
    for _ in range(4):
        world.enqueue({"how": "ok"}, handler=Odd, tenant=world.other)
    mine = claimer_here()
    turns = [batch for _ in range(2) for batch in claim_batches_here(world, slots=2, claimer=mine)]
    assert sorted((batch[0].login.slug, len(batch)) for batch in turns) == [
        ("suc0001", 8), ("suc0001", 8), ("suc0002", 1), ("suc0002", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("whose", ["tenant", "type"])
def test_a_cap_holds_for_batches(world: ExampleInstallation, whose: str) -> None:
    put(world, *["ok"] * 8)
    if whose == "tenant":
        world.rows("UPDATE turno.tenants SET cap = 3 WHERE slug = 'suc0001'")
    else:
        world.rows("INSERT INTO turno.job_types (type, cap) VALUES ('odd_batched', 3)")
    try:
        assert [len(batch) for batch in claim_batches_here(world)] == [3]
        assert claim_batches_here(world) == []
    finally:
        world.rows("UPDATE turno.tenants SET cap = NULL; DELETE FROM turno.job_types")


def test_a_job_that_a_worker_died_with_runs_alone(world: ExampleInstallation) -> None:
    jobs = put(world, *["ok"] * 4)
    start_and_take_back(world, claim(world), blamed=[jobs[0], jobs[2]])
    assert [world.job(job_id)["crashes"] for job_id in jobs] == [1, 0, 1, 0]
    batches = [[one.job_id for one in claim(world)] for _ in range(3)]
    assert sorted(batches) == sorted([[jobs[0]], [jobs[2]], [jobs[1], jobs[3]]])


def test_a_repaired_ticket_still_says_that_its_job_runs_alone(world: ExampleInstallation) -> None:
    first, _ = put(world, "ok", "ok")
    start_and_take_back(world, claim(world), blamed=[first])
    world.rows("DELETE FROM turno.tickets WHERE job_id = %s", first)
    recovery.repair(world.engine, world.one.schema, "pool")
    assert [len(claim(world)), len(claim(world))] == [1, 1]


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


def test_each_has_its_own_end_and_the_others_keep_theirs(world: ExampleInstallation) -> None:
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


def test_what_a_failed_one_wrote_is_undone(world: ExampleInstallation) -> None:
    jobs = run(world, "ok", "error", "ok")
    assert [job["status"] for job in jobs] == ["completed", "pending", "completed"]
    assert written(world) == {"G0", "G2"}


def test_one_that_aborts_the_transaction_costs_the_others_no_second_run(world: ExampleInstallation) -> None:
    jobs = run(world, "ok", "leave_aborted", "ok")
    assert [job["status"] for job in jobs] == ["completed", "pending", "completed"]
    assert set(RUNS.values()) == {1}


def test_a_payload_that_no_longer_fits_fails_alone(world: ExampleInstallation) -> None:
    jobs = put(world, "ok", "ok", "ok")
    world.rows("""UPDATE background_jobs SET payload = '{"unheard_of": 1}' WHERE id = %s""", jobs[1])
    execute_batch_here(world, claim(world))
    assert [world.job(job_id)["status"] for job_id in jobs] == ["completed", "pending", "completed"]
    assert "unheard_of" in world.job(jobs[1])["error"]["message"]


@pytest.mark.parametrize("why", ["cancelled on request", "expired"])
def test_what_is_no_longer_wanted_does_not_run(world: ExampleInstallation, why: str) -> None:
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


def test_one_that_sees_its_cancellation_ends_cancelled_and_the_others_complete(world: ExampleInstallation) -> None:
    jobs = put(world, "ok", "hook", "ok")

    def cancel(job: JobContext) -> None:
        assert world.cancel(job.job_id) == "requested"
        job.check_cancelled()

    HOOKS["G1"] = cancel
    execute_batch_here(world, claim(world))
    assert [world.job(job_id)["status"] for job_id in jobs] == ["completed", "cancelled", "completed"]
    assert written(world) == {"G0", "G2"}


def test_a_job_that_was_claimed_is_asked_to_stop_and_its_neighbours_run_once(world: ExampleInstallation) -> None:
    """Ending it at once would refuse the commit that it shares with the others."""
    jobs = put(world, "ok", "hook", "ok")
    HOOKS["G1"] = lambda job: asked.append(world.cancel(job.job_id))
    asked: list[str] = []
    execute_batch_here(world, claim(world))
    assert asked == ["requested"]
    assert [world.job(job_id)["status"] for job_id in jobs] == ["completed"] * 3
    assert set(RUNS.values()) == {1}


def test_a_collision_of_one_is_tried_again_after_the_others_have_committed(world: ExampleInstallation) -> None:
    jobs = run(world, "ok", "collide_once", "ok")
    assert [job["status"] for job in jobs] == ["completed"] * 3
    assert (jobs[1]["result"], jobs[1]["errors"], jobs[1]["attempt"]) == ({"runs": 2}, 0, 1)
    assert written(world) == {"G0", "G1", "G2"}


def test_what_only_the_commit_refuses_fails_the_one_that_wrote_it(world: ExampleInstallation) -> None:
    world.rows("CREATE TABLE refused_at_commit (id integer UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    world.rows(f"GRANT INSERT ON refused_at_commit TO {world.one.handler_role}")
    try:
        jobs = run(world, "ok", "defer_a_refusal", "ok")
    finally:
        world.rows("DROP TABLE refused_at_commit")
    assert [job["status"] for job in jobs] == ["completed", "pending", "completed"]
    assert (jobs[1]["errors"], jobs[1]["error"]["sqlstate"]) == (1, "23505")
    assert written(world) == {"G0", "G2"}


def test_one_that_leaves_another_transaction_in_its_place_is_found_out(world: ExampleInstallation) -> None:
    jobs = run(world, "ok", "commit_and_begin", "ok")
    assert [job["status"] for job in jobs] == ["failed", "failed", "completed"]
    assert {job["error"]["class"] for job in jobs[:2]} == {"HandlerMisuse"}
    assert RUNS[jobs[2]["id"]] == 2  # its first statement was refused


def test_the_last_that_leaves_another_transaction_in_its_place_is_found_out_by_the_end(
    world: ExampleInstallation,
) -> None:
    jobs = run(world, "ok", "commit_and_begin")
    assert [(job["status"], job["error"]["class"]) for job in jobs] == [("failed", "HandlerMisuse")] * 2


@pytest.mark.parametrize("how", ["raw_commit", "raw_rollback", "release_savepoint"])
def test_one_that_ends_the_transaction_doubles_nothing(world: ExampleInstallation, how: str) -> None:
    jobs = run(world, "ok", "error", "ok", how, "ok")
    assert [job["status"] for job in jobs] == ["completed", "pending", "failed", "failed", "completed"]
    assert {job["error"]["class"] for job in jobs[2:4]} == {"HandlerMisuse"}
    assert [job["attempt"] for job in jobs] == [1] * 5
    assert {"G0", "G4"} <= written(world)


@pytest.mark.parametrize("how", ["commit", "rollback", "close"])
def test_ending_the_transaction_by_the_connection_is_refused_and_is_one_s_own_failure(
    world: ExampleInstallation, how: str
) -> None:
    jobs = run(world, "ok", how, "ok")
    assert [job["status"] for job in jobs] == ["completed", "failed", "completed"]
    assert jobs[1]["error"]["class"] == "HandlerMisuse"


def test_a_session_that_breaks_costs_only_the_one_that_broke_it(world: ExampleInstallation) -> None:
    jobs = run(world, "ok", "end_own_backend", "ok")
    assert [job["status"] for job in jobs] == ["completed", "pending", "completed"]
    assert [job["errors"] for job in jobs] == [0, 1, 0]
    assert written(world) == {"G0", "G2"}


@pytest.mark.parametrize("place", ["first", "between", "last"])
@pytest.mark.parametrize("sends_first", [True, False])
def test_one_that_commits_by_itself_takes_the_others_before_it_along(
    world: ExampleInstallation, place: str, *, sends_first: bool
) -> None:
    """What was kept is committed at once where the job has sent nothing, else with its own first commit."""
    order = {"first": ["hook", "ok", "ok"], "between": ["ok", "hook", "ok"], "last": ["ok", "ok", "hook"]}[place]
    jobs = put(world, *order)
    at = order.index("hook")
    if not sends_first:
        world.rows(
            "UPDATE background_jobs SET payload = payload - 'text' || '{\"text\": \"\"}' WHERE id = %s", jobs[at]
        )
    seen: list[list[str]] = []

    def checkpoint(job: JobContext) -> None:
        batch = job.each(["an item that may take its time"])
        assert [world.job(job_id)["status"] for job_id in jobs[:at]] == ["pending" if sends_first else "completed"] * at
        for step in batch:
            with step:
                pass
        job.checkpoint("half")
        seen.append([world.job(job_id)["status"] for job_id in jobs])
        raise ValueError("after its checkpoint")

    HOOKS[f"G{at}" if sends_first else ""] = checkpoint
    execute_batch_here(world, claim(world))
    assert seen == [["completed"] * at + ["pending"] * (3 - at)]
    found = [world.job(job_id) for job_id in jobs]
    assert [job["status"] for job in found] == ["pending" if n == at else "completed" for n in range(3)]
    assert (found[at]["errors"], found[at]["attempt"]) == (1, 1)
    assert world.rows("SELECT state FROM background_job_checkpoints") == [{"state": "half"}]
    # Its own work before the checkpoint was committed with that.
    assert written(world) == {f"G{n}" for n in range(3) if n != at or sends_first}
    assert set(RUNS.values()) == {1}


def test_one_that_fails_before_its_first_commit_takes_nothing_of_the_others(world: ExampleInstallation) -> None:
    jobs = put(world, "ok", "hook", "ok")

    def too_large(job: JobContext) -> None:
        job.checkpoint("x" * 2_000_000)

    HOOKS["G1"] = too_large
    execute_batch_here(world, claim(world))
    assert [world.job(job_id)["status"] for job_id in jobs] == ["completed", "failed", "completed"]
    assert written(world) == {"G0", "G2"}


def test_what_collides_with_its_neighbours_in_a_commit_of_its_own_runs_again_and_so_do_they(
    world: ExampleInstallation,
) -> None:
    """Whose fault it was cannot be known: the claim of the first is lost in the middle of the second."""
    jobs = put(world, "ok", "hook", "ok")

    def lose_and_commit(job: JobContext) -> None:
        HOOKS["G1"] = lambda _job: None
        take_away(world, jobs[0], later=True)
        job.checkpoint("half")

    HOOKS["G1"] = lose_and_commit
    execute_batch_here(world, claim(world))
    assert [world.job(job_id)["status"] for job_id in jobs] == ["pending", "completed", "completed"]
    assert written(world) == {"G1", "G2"}


def test_alone_each_has_a_commit_of_its_own(world: ExampleInstallation) -> None:
    jobs = [world.enqueue({"how": "transaction", "text": f"G{n}"}, handler=OddAlone) for n in range(3)]
    (claims,) = claim_batches_here(world)
    execute_batch_here(world, claims)
    found = [world.job(job_id) for job_id in jobs]
    assert len({job["result"]["transaction"] for job in found}) == 3
    assert len({job["result"]["backend"] for job in found}) == 1


def test_who_takes_long_is_the_last_to_share_its_commit(
    world: ExampleInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "SHARED_SECONDS", 0.0)
    jobs = run(world, *["transaction"] * 3)
    assert len({job["result"]["transaction"] for job in jobs}) == 3


def test_who_sends_nothing_has_no_savepoint_and_who_fails_after_it_undoes_its_own_only(
    world: ExampleInstallation,
) -> None:
    jobs = [world.enqueue({"how": how, "text": text}, handler=OddBatched)
            for how, text in (("ok", "G0"), ("ok", ""), ("error", "G2"), ("ok", "G3"))]  # fmt: skip
    execute_batch_here(world, claim(world))
    assert [world.job(job_id)["status"] for job_id in jobs] == ["completed", "completed", "pending", "completed"]
    assert written(world) == {"G0", "G3"}


def test_what_was_called_back_is_not_begun(world: ExampleInstallation) -> None:
    jobs = put(world, "ok", "hook", "ok", "ok")
    shared = SharedState()
    HOOKS["G1"] = lambda _job: called.append(shared.call_back(0))
    called: list[int] = []
    ends = execute_batch_here(world, claim(world), shared)
    assert [one.job_id for one in ends] == jobs[:2]
    assert called == [1]
    assert [world.job(job_id)["status"] for job_id in jobs] == ["completed"] * 2 + ["pending"] * 2


def test_progress_of_one_is_shown(world: ExampleInstallation) -> None:
    jobs = run(world, "progress", "ok")
    (row,) = world.rows("SELECT job_id, done, total, message FROM background_job_progress")
    assert row == {"job_id": jobs[0]["id"], "done": 1, "total": 2, "message": "half"}


def test_the_session_s_python_side_is_clean_for_each(world: ExampleInstallation) -> None:
    jobs = run(world, "dict_rows", "dict_rows", "dict_rows")
    assert [job["result"] for job in jobs] == [{"row": [1]}] * 3


def test_a_worker_that_is_stopping_begins_nothing(world: ExampleInstallation) -> None:
    jobs = put(world, "ok", "ok")
    shared = SharedState()
    shared.listen()
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        assert execute_batch_here(world, claim(world), shared) == {}
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    found = [world.job(job_id) for job_id in jobs]
    assert [(job["status"], job["errors"], job["crashes"]) for job in found] == [("pending", 0, 0)] * 2
    assert written(world) == set()


@pytest.mark.parametrize("state", ["pending", "running"])
def test_one_that_lost_its_claim_before_the_start_is_left_out(world: ExampleInstallation, state: str) -> None:
    jobs = put(world, "ok", "ok", "ok")
    claims = claim(world)
    take_away(world, jobs[1], later=state == "pending")
    if state == "running":
        claim(world)
    assert list(execute_batch_here(world, claims).values()) == ["completed", LOST, "completed"]
    assert RUNS[jobs[1]] == 0
    assert [world.job(job_id)["status"] for job_id in jobs] == ["completed", "pending", "completed"]
    ticket = world.ticket(jobs[1])
    assert ticket is not None
    assert ticket["state"] == ("running" if state == "running" else "scheduled")
    assert written(world) == {"G0", "G2"}


@pytest.mark.parametrize("state", ["pending", "running"])
@pytest.mark.parametrize("loser", [0, 1, 2])
def test_one_that_loses_its_claim_meanwhile_writes_nothing_and_the_others_complete(
    world: ExampleInstallation, loser: int, state: str
) -> None:
    jobs = put(world, "hook", "hook", "hook")
    HOOKS.update(dict.fromkeys(["G0", "G1", "G2"], lambda _job: None))

    def lose(_job: JobContext) -> None:
        HOOKS["G1"] = lambda _job: None
        take_away(world, jobs[loser], later=state == "pending")
        if state == "running":
            start_by_another(world, claim(world))

    HOOKS["G1"] = lose
    statuses = execute_batch_here(world, claim(world))
    left = [job_id for job_id in jobs if job_id != jobs[loser]]
    told = dict.fromkeys(left, "completed") | {jobs[loser]: LOST}
    assert {one.job_id: status for one, status in statuses.items()} == told
    assert [world.job(job_id)["status"] for job_id in left] == ["completed", "completed"]
    assert (world.job(jobs[loser])["status"], world.job(jobs[loser])["crashes"]) == (state, 0)
    assert written(world) == {f"G{n}" for n in range(3) if n != loser}


@pytest.mark.parametrize("committed", [True, False])
def test_after_a_lost_reply_to_the_commit_the_tokens_say_what_became_of_it(
    world: ExampleInstallation, *, committed: bool
) -> None:
    jobs = put(world, "ok", "error", "transaction")
    kind: type[Lossy] = ReplyLost if committed else NeverSent
    kind.broke, kind.messages = False, 0
    execute_batch_here(world, claim(world), kind=kind)
    assert kind.broke
    found = [world.job(job_id) for job_id in jobs]
    assert [(job["status"], job["attempt"], job["errors"]) for job in found] == [
        ("completed", 1, 0), ("pending", 1, 1), ("completed", 1, 0),
    ]  # fmt: skip
    assert written(world) == {"G0", "G2"}
    runs = [row["n"] for row in world.rows("SELECT count(*) AS n FROM background_job_attempts GROUP BY job_id")]
    assert runs == [1, 1, 1]
    # Run once more only where the commit had not arrived.
    assert [RUNS[job_id] for job_id in jobs] == ([1, 1, 1] if committed else [2, 1, 1])


class Lossy(HandlerConnection):
    """Breaks at the first batch's end, which is the second message to the server: the first is its start."""

    broke = False
    messages = 0

    def give_up(self) -> NoReturn:
        type(self).broke = True
        psycopg.Connection.close(self)
        raise psycopg.OperationalError("the connection was lost")


class ReplyLost(Lossy):
    """Loses the server's answer; the server has done what the message says."""

    def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
        message = self.pgconn.pipeline_status == PipelineStatus.ON
        answer = super().wait(gen, *arguments, **options)
        type(self).messages += message
        if message and self.messages == 2:
            self.give_up()
        return answer


class NeverSent(Lossy):
    """Breaks before the message is sent."""

    @property
    def cleaning(self) -> Sequence[Statement]:
        if not self.broke:
            self.give_up()
        return super().cleaning


def test_a_handler_of_before_that_says_group_is_told_so() -> None:
    with pytest.raises(ValueError, match="leave it out"):
        type("Grouped", (JobHandler,), {"group": 2})


def take_away(world: ExampleInstallation, job_id: UUID, *, later: bool) -> None:
    """Have the job taken back, to run later or at once, by somebody who cannot end the session that works for it."""
    world.rows("UPDATE background_job_attempts SET backend_start = 'epoch' WHERE job_id = %s", job_id)
    (ticket,) = world.rows("SELECT token FROM turno.tickets WHERE job_id = %s", job_id)
    wait = timedelta(hours=1) if later else timedelta(0)
    recovery.rescue(world.engine, world.one.schema, job_id, ticket["token"], cause="a test", retry_in=wait)


def start_by_another(world: ExampleInstallation, claims: Batch) -> None:
    """Somebody starts the attempts and is at work on them."""
    with session(world) as other:
        for one in claims:
            attempt_steps.start(other, one, "another")


def start_and_take_back(world: ExampleInstallation, claims: Batch, blamed: list[UUID]) -> None:
    """Start the batch, then have it taken back as from a dead worker."""
    start_by_another(world, claims)
    for one in claims:
        recovery.rescue(
            world.engine,
            one.login.schema,
            one.job_id,
            one.token,
            cause="a test",
            retry_in=timedelta(0),
            counted=one.job_id in blamed,
        )


@contextmanager
def session(world: ExampleInstallation) -> Iterator[HandlerConnection]:
    """Log in as the handler."""
    connection = handler_session(world.logins, world.handler_login(), application="test", kind=HandlerConnection)
    yield connection
    psycopg.Connection.rollback(connection)
    psycopg.Connection.close(connection)
