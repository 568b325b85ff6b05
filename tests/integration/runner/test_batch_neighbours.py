"""A job's damage to its session, its process or its neighbours' rows concerns its own end only."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from uuid import UUID

import pytest

from tests.batch_in_process import claim_batches_in_process, execute_batch_in_process, pool_claimer
from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import HOOKS, RUNS, FaultyAlone, FaultyBatched
from tests.misdeeds.processes import LEFT_OPEN
from turno import crash_points
from turno.jobs.job_context import JobContext
from turno.runner import executor, transaction
from turno.runner.session import CLEAN
from turno.store.handler.pipeline import JobPipeline, Pipeline


@pytest.fixture(autouse=True)
def grouped(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    example.backend = "pool"
    monkeypatch.setattr(executor, "SHARED_SECONDS", 60.0)  # on a machine of any speed
    monkeypatch.setattr(transaction, "FETCH_BELIEVED_SECONDS", 60.0)
    example.rows("DELETE FROM customers WHERE company_name = 'Faulty'")
    yield
    RUNS.clear()
    HOOKS.clear()
    LEFT_OPEN.clear()


def run(example: ExampleInstallation, *deeds: str, handler: type[FaultyBatched] = FaultyBatched) -> list[UUID]:
    """Run a job for each deed as one batch; each makes a customer named for its place first."""
    jobs = [example.enqueue({"how": how, "text": f"G{n}"}, handler=handler) for n, how in enumerate(deeds)]
    (claims,) = claim_batches_in_process(example)
    assert [claim.job_id for claim in claims] == jobs
    execute_batch_in_process(example, claims)
    return jobs


def statuses(example: ExampleInstallation, jobs: list[UUID]) -> list[str]:
    return [example.job(job_id)["status"] for job_id in jobs]


@pytest.mark.parametrize(
    ("how", "end", "error"),
    [
        ("leave_a_copy", "failed", "HandlerMisuse"),
        ("fork_and_close", "pending", "OperationalError"),
        ("fork_and_leave", "completed", None),
        ("unpicklable", "pending", "TwoArguments"),
        ("too_large", "failed", "InvalidResult"),
    ],
)
def test_its_neighbours_complete_and_the_next_runs_once(
    example: ExampleInstallation, how: str, end: str, error: str | None
) -> None:
    jobs = run(example, "ok", how, "ok")
    assert statuses(example, jobs) == ["completed", end, "completed"]
    assert (example.job(jobs[1])["error"] or {}).get("class") == error
    assert RUNS[jobs[2]] == 1
    result = [example.job(job_id) for job_id in (jobs[0], jobs[2])]
    assert [(job["attempt"], job["errors"], job["crashes"]) for job in result] == [(1, 0, 0)] * 2
    made = {row["id"] for row in example.rows("SELECT id FROM customers WHERE country = 'batched'")}
    assert made == {f"G{n}" for n in range(3) if n != 1 or end == "completed"}


@pytest.mark.parametrize(
    "left",
    [
        ["SET search_path = pg_catalog", "SET statement_timeout = 1"],
        ["SET LOCAL search_path = pg_catalog"],
        ["PREPARE mine AS SELECT 1"],
        ["DECLARE mine CURSOR FOR SELECT 1"],
        ["SELECT 1"] * 8,  # which the driver prepares, under its own name
    ],
    ids=["settings", "local settings", "prepared", "cursor", "prepared by the driver"],
)
def test_session_state_does_not_reach_the_neighbour(example: ExampleInstallation, left: list[str]) -> None:
    def leave(job: JobContext) -> None:
        for text in left:
            job.connection.execute(text.encode())

    HOOKS.update(dict.fromkeys(["G0", "G1"], leave))
    assert statuses(example, run(example, "hook", "hook", "ok")) == ["completed"] * 3
    assert set(RUNS.values()) == {1}


def test_session_ended_between_jobs_fails_none_for_good(
    example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[object] = []

    def end_sessions(step: str) -> None:
        if step == "member" and not ended:
            ended.extend(
                example.rows(
                    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'test'"
                )
            )

    monkeypatch.setattr(crash_points, "reach", end_sessions)
    jobs = run(example, "ok", "ok", "ok")
    assert len(ended) == 1
    assert statuses(example, jobs) == ["completed"] * 3
    assert [example.job(job_id)["errors"] for job_id in jobs] == [0, 0, 0]


def test_read_only_transaction_counts_against_its_job(example: ExampleInstallation) -> None:
    def only_read(job: JobContext) -> None:
        job.connection.execute("SET TRANSACTION READ ONLY")

    HOOKS["G0"] = only_read
    jobs = run(example, "hook", "ok", "ok")
    assert statuses(example, jobs) == ["pending", "completed", "completed"]
    assert [example.job(job_id)["errors"] for job_id in jobs] == [1, 0, 0]
    assert example.job(jobs[0])["error"]["class"] == "ReadOnlySqlTransaction"


def test_deadlocked_batches_end_at_their_first_attempt(example: ExampleInstallation) -> None:
    """Each holds the row that the second job of its counterpart needs."""
    first, second = (row["id"] for row in example.rows("SELECT id FROM customers ORDER BY id LIMIT 2"))
    meeting = Barrier(2)

    def lock(customer: str, *, meet: bool) -> None:
        def do(job: JobContext) -> None:
            job.connection.execute("SELECT FROM customers WHERE id = %s FOR UPDATE", (customer,))
            if meet and RUNS[job.job_id] == 1:
                meeting.wait(20)

        HOOKS[f"{customer}{meet}{len(HOOKS)}"] = do

    for customer_id, other in ((first, second), (second, first)):
        lock(customer_id, meet=True)
        lock(other, meet=False)
    jobs, batches, claimer = [], [], pool_claimer()
    for texts in (list(HOOKS)[:2], list(HOOKS)[2:]):
        jobs += [example.enqueue({"how": "hook", "text": text}, handler=FaultyBatched) for text in texts]
        batches += claim_batches_in_process(example, claimer=claimer)
    example.rows(f"ALTER ROLE {example.one.handler_role} SET deadlock_timeout = '50ms'")
    try:
        with ThreadPoolExecutor(2) as both:
            list(both.map(lambda batch: execute_batch_in_process(example, batch), batches))
    finally:
        example.rows(f"ALTER ROLE {example.one.handler_role} RESET deadlock_timeout")
    result = [example.job(job_id) for job_id in jobs]
    assert [(job["status"], job["attempt"], job["errors"]) for job in result] == [("completed", 1, 0)] * 4
    assert sum(RUNS.values()) == 5  # one of them met its counterpart and ran again


def test_unused_session_is_not_cleaned_after_each_job(
    example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[list[int]] = []

    send = Pipeline.send

    def counting(pipeline: Pipeline) -> None:
        if isinstance(pipeline, JobPipeline):
            messages.append(pipeline.units)
        send(pipeline)

    monkeypatch.setattr(Pipeline, "send", counting)
    jobs = [example.enqueue({"how": "ok"}, handler=FaultyAlone) for _ in range(4)]
    (claims,) = claim_batches_in_process(example)
    execute_batch_in_process(example, claims)
    assert statuses(example, jobs) == ["completed"] * 4
    # Looked up with the first one's beginning, cleaned once; then each end comes with the next one's beginning, and is
    # answered once.
    assert messages == [[5], [2 + len(CLEAN), 2], [4], [4], [2]]


@pytest.mark.parametrize("handler", [FaultyBatched, FaultyAlone], ids=["together", "alone"])
def test_handler_transaction_holds_no_lock_of_the_look_up(
    example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch, handler: type[FaultyBatched]
) -> None:
    """A table under the lock of a mere look-up could not be altered while a long handler runs."""
    monkeypatch.setattr(transaction, "FETCH_BELIEVED_SECONDS", 0.0)
    locked: list[object] = []

    def look(job: JobContext) -> None:
        locked.extend(
            job.connection.execute(
                "SELECT c.relname FROM pg_locks l JOIN pg_class c ON c.oid = l.relation"
                " WHERE pid = pg_backend_pid() AND c.relname IN ('background_jobs', 'tickets')"
            ).fetchall()
        )

    HOOKS.update(dict.fromkeys(["G0", "G1"], look))
    assert statuses(example, run(example, "hook", "hook", handler=handler)) == ["completed"] * 2
    assert locked == []


def test_alone_session_is_cleaned_before_the_next_job(example: ExampleInstallation) -> None:
    seen: list[object] = []

    def leave(job: JobContext) -> None:
        row = job.connection.execute("SELECT current_setting('work_mem')").fetchone()
        seen.append(row)
        job.connection.execute("SET work_mem = '5MB'; LISTEN something")

    HOOKS.update(dict.fromkeys(["G0", "G2"], leave))
    assert statuses(example, run(example, "hook", "ok", "hook", handler=FaultyAlone)) == ["completed"] * 3
    assert seen[0] == seen[1] != ("5MB",)


@pytest.mark.parametrize("believed", [0.0, 60.0], ids=["long ago", "just now"])
def test_alone_job_is_looked_up_again_after_a_pause(
    example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch, believed: float
) -> None:
    monkeypatch.setattr(transaction, "FETCH_BELIEVED_SECONDS", believed)
    cancel = "UPDATE background_jobs SET cancel_requested_at = now() WHERE payload ->> 'text' = 'G1'"

    def cancel_the_next(_job: JobContext) -> None:
        example.rows(cancel)

    HOOKS["G0"] = cancel_the_next
    jobs = run(example, "hook", "ok", "ok", handler=FaultyAlone)
    assert statuses(example, jobs) == ["completed", "completed" if believed else "cancelled", "completed"]
