"""Claims of a batch that are lost or called back, and a commit without an answer."""

import os
import signal
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any, NoReturn
from uuid import UUID

import psycopg
import pytest
from psycopg.pq import PipelineStatus

from tests.batch_in_process import execute_batch_in_process
from tests.installation import ExampleInstallation
from tests.integration.runner.batches.batch import claim, put, start_by_another, written
from tests.misbehaving_handlers import HOOKS, RUNS
from turno.jobs.job_context import JobContext
from turno.runner.executor import LOST
from turno.runner.session import HandlerConnection
from turno.runner.shared_state import SharedState
from turno.store.handler.pipeline import Statement


def test_recalled_job_is_not_begun(example: ExampleInstallation) -> None:
    jobs = put(example, "ok", "hook", "ok", "ok")
    shared = SharedState()
    HOOKS["G1"] = lambda _job: called.append(shared.call_back(0))
    called: list[int] = []
    ends = execute_batch_in_process(example, claim(example), shared)
    assert [end.job_id for end in ends] == jobs[:2]
    assert called == [1]
    assert [example.job(job_id)["status"] for job_id in jobs] == ["completed"] * 2 + ["pending"] * 2


def test_a_worker_that_is_stopping_begins_nothing(example: ExampleInstallation) -> None:
    jobs = put(example, "ok", "ok")
    shared = SharedState()
    shared.listen()
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        assert execute_batch_in_process(example, claim(example), shared) == {}
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    due_in = [example.job(job_id) for job_id in jobs]
    assert [(job["status"], job["errors"], job["crashes"]) for job in due_in] == [("pending", 0, 0)] * 2
    assert written(example) == set()


@pytest.mark.parametrize("state", ["pending", "running"])
def test_one_that_lost_its_claim_before_the_start_is_left_out(example: ExampleInstallation, state: str) -> None:
    jobs = put(example, "ok", "ok", "ok")
    claims = claim(example)
    take_away(example, jobs[1], later=state == "pending")
    if state == "running":
        claim(example)
    assert list(execute_batch_in_process(example, claims).values()) == ["completed", LOST, "completed"]
    assert RUNS[jobs[1]] == 0
    assert [example.job(job_id)["status"] for job_id in jobs] == ["completed", "pending", "completed"]
    ticket = example.ticket(jobs[1])
    assert ticket is not None
    assert ticket["state"] == ("running" if state == "running" else "scheduled")
    assert written(example) == {"G0", "G2"}


@pytest.mark.parametrize("state", ["pending", "running"])
@pytest.mark.parametrize("loser", [0, 1, 2])
def test_lost_claim_writes_nothing_and_neighbours_complete(
    example: ExampleInstallation, loser: int, state: str
) -> None:
    jobs = put(example, "hook", "hook", "hook")
    HOOKS.update(dict.fromkeys(["G0", "G1", "G2"], lambda _job: None))

    def lose(_job: JobContext) -> None:
        HOOKS["G1"] = lambda _job: None
        start_by_another(example, [claims[loser]])  # its supervisor shows it as running
        take_away(example, jobs[loser], later=state == "pending")
        if state == "running":
            start_by_another(example, claim(example))

    HOOKS["G1"] = lose
    claims = claim(example)
    statuses = execute_batch_in_process(example, claims)
    left = [job_id for job_id in jobs if job_id != jobs[loser]]
    reply = dict.fromkeys(left, "completed") | {jobs[loser]: LOST}
    assert {claimed.job_id: status for claimed, status in statuses.items()} == reply
    assert [example.job(job_id)["status"] for job_id in left] == ["completed", "completed"]
    assert (example.job(jobs[loser])["status"], example.job(jobs[loser])["crashes"]) == (state, 0)
    assert written(example) == {f"G{n}" for n in range(3) if n != loser}
    assert counted_lost(example) == [jobs[loser]]


def counted_lost(example: ExampleInstallation) -> list[UUID]:
    return [row["job_id"] for row in example.rows("SELECT job_id FROM turno.outcomes WHERE outcome = 'claim_lost'")]


@pytest.mark.parametrize("committed", [True, False])
def test_lost_commit_reply_is_resolved_by_tokens(example: ExampleInstallation, *, committed: bool) -> None:
    jobs = put(example, "ok", "error", "transaction")
    kind: type[Lossy] = ReplyLost if committed else NeverSent
    kind.broke, kind.messages = False, 0
    execute_batch_in_process(example, claim(example), kind=kind)
    assert kind.broke
    due_in = [example.job(job_id) for job_id in jobs]
    first = ("completed", 1, 0) if committed else ("pending", 1, 1)
    assert [(job["status"], job["attempt"], job["errors"]) for job in due_in] == [
        first, ("pending", 1, 1), ("completed", 1, 0),
    ]  # fmt: skip
    assert written(example) == {"G0", "G2"} if committed else {"G2"}
    runs = [row["n"] for row in example.rows("SELECT count(*) AS n FROM background_job_attempts GROUP BY job_id")]
    assert runs == [1, 1, 1]
    assert counted_lost(example) == []
    assert [RUNS[job_id] for job_id in jobs] == [1, 1, 1]


class Lossy(HandlerConnection):
    """Breaks at the first batch's end, which is the second message to the server: the first is its start."""

    broke = False
    messages = 0

    def give_up(self) -> NoReturn:
        type(self).broke = True
        psycopg.Connection.close(self)
        raise psycopg.OperationalError("the connection was lost")


class ReplyLost(Lossy):
    """Loses the server's answer; the server has executed the message."""

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


def take_away(example: ExampleInstallation, job_id: UUID, *, later: bool) -> None:
    """Have the job taken back, to run later or at once, by a process that cannot end the job's session."""
    example.rows("UPDATE background_job_attempt_rows SET backend_start = 'epoch' WHERE job_id = %s", job_id)
    (ticket,) = example.rows("SELECT token FROM turno.tickets WHERE job_id = %s", job_id)
    wait = timedelta(hours=1) if later else timedelta(0)
    take = partial(example.engine.rescue, example.one.schema, job_id, ticket["token"])
    take(cause="a test", retry_in=wait, counted=False)
