"""A batch and its ledger: a done item is done once, a failure concerns one item, the rest is tried again."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.attempt_here import attempt
from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import Odd
from tests.misdeeds.deed import DEEDS
from tests.misdeeds.steps import write_counted
from turno.jobs.job_context import JobContext

AtThird = Callable[[JobContext], object]


@pytest.fixture(autouse=True)
def no_customers(world: ExampleInstallation) -> None:
    world.rows("DELETE FROM customers WHERE company_name = 'Odd'")


@pytest.fixture
def five_items(world: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> Callable[[AtThird], UUID]:
    """Enqueue a batch of five, in chunks of two; on its first attempt something happens within the item 3."""

    def enqueue(happens: AtThird) -> UUID:
        def deed(job: JobContext, _payload: object) -> dict[str, Any]:
            for step in job.each(range(5), chunk=2):
                with step as item:
                    write_counted(job, item.value)
                    if item.value == 3 and job.attempt == 1:
                        happens(job)
            return {}

        monkeypatch.setitem(DEEDS, "ok", deed)
        return world.enqueue({"how": "ok"}, handler=Odd)

    return enqueue


def cancel_its_statement(job: JobContext) -> None:
    job.connection.execute("SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(60)")


def ledger(world: ExampleInstallation, job_id: UUID) -> dict[str, str]:
    rows = world.rows("SELECT key, state FROM background_job_items WHERE job_id = %s ORDER BY key", job_id)
    return {row["key"]: row["state"] for row in rows}


def written(world: ExampleInstallation) -> list[str]:
    return [row["id"] for row in world.rows("SELECT id FROM customers WHERE country = 'counted' ORDER BY id")]


def test_failed_item_keeps_nothing_and_the_rest_is_kept(world: ExampleInstallation) -> None:
    job_id = world.enqueue({"how": "items", "number": 4, "text": "1,2"}, handler=Odd)
    job = attempt(world, job_id)
    assert job["result"] == {"done": 2, "failed": 2, "skipped": 0}
    assert ledger(world, job_id) == {"0": "done", "1": "failed", "2": "failed", "3": "done"}
    assert written(world) == ["N0", "N3"]


def test_item_is_not_blamed_for_a_database_error(
    world: ExampleInstallation, five_items: Callable[[AtThird], UUID]
) -> None:
    job_id = five_items(cancel_its_statement)
    job = attempt(world, job_id)
    assert (job["status"], job["errors"], job["error"]["class"]) == ("pending", 1, "QueryCanceled")
    assert ledger(world, job_id) == {"0": "done", "1": "done"}
    assert written(world) == ["N0", "N1"]


def test_visible_work_has_its_attempt(world: ExampleInstallation, five_items: Callable[[AtThird], UUID]) -> None:
    """Also where no supervisor shows the job as running: it may be frozen."""
    query = "SELECT j.status, a.outcome FROM background_jobs j JOIN background_job_attempts a ON a.job_id = j.id"
    seen = []
    job_id = five_items(lambda _job: seen.append((ledger(world, job_id), world.rows(query))))
    attempt(world, job_id)
    assert seen == [({"0": "done", "1": "done"}, [{"status": "running", "outcome": None}])]


def test_later_attempt_runs_only_unfinished_items(
    world: ExampleInstallation, five_items: Callable[[AtThird], UUID]
) -> None:
    job_id = five_items(cancel_its_statement)
    attempt(world, job_id)
    # Doing an item again would fail: its row is there.
    assert attempt(world, job_id)["status"] == "completed"
    assert set(ledger(world, job_id).values()) == {"done"}
    assert written(world) == ["N0", "N1", "N2", "N3", "N4"]


def test_an_item_that_ends_the_transaction_fails_the_job(
    world: ExampleInstallation, five_items: Callable[[AtThird], UUID]
) -> None:
    job = attempt(world, job_id := five_items(lambda job: job.connection.commit()))
    assert (job["status"], job["error"]["class"]) == ("failed", "HandlerMisuse")
    assert ledger(world, job_id) == {"0": "done", "1": "done"}


def test_a_cancellation_within_an_item_is_not_the_item_s_failure(
    world: ExampleInstallation, five_items: Callable[[AtThird], UUID]
) -> None:
    def cancel(job: JobContext) -> None:
        world.cancel(job.job_id)
        job.check_cancelled()

    job = attempt(world, job_id := five_items(cancel))
    assert (job["status"], job["reason"]) == ("cancelled", "cancelled on request")
    assert ledger(world, job_id) == {"0": "done", "1": "done"}
    assert written(world) == ["N0", "N1"]


def test_a_batch_left_early_is_recorded_as_far_as_it_went(world: ExampleInstallation) -> None:
    job_id = world.enqueue({"how": "leave_the_batch_early", "number": 5}, handler=Odd)
    assert attempt(world, job_id)["status"] == "completed"
    assert written(world) == [f"N{key}" for key in ledger(world, job_id)]
    assert len(written(world)) == 6


def test_checkpoint_commits_two_items_with_their_record(
    world: ExampleInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deed(job: JobContext, _payload: object) -> dict[str, Any]:
        batch = job.each(range(4))
        for step in batch:
            with step as item:
                write_counted(job, item.value)
            if item.value == 1:
                job.checkpoint("half")
                if job.attempt == 1:
                    raise ValueError
        return {"done": batch.counts.done}

    monkeypatch.setitem(DEEDS, "ok", deed)
    job_id = world.enqueue({"how": "ok"}, handler=Odd)
    assert attempt(world, job_id)["errors"] == 1
    assert ledger(world, job_id) == {"0": "done", "1": "done"}
    assert written(world) == ["N0", "N1"]
    assert attempt(world, job_id)["result"] == {"done": 4}
    assert written(world) == ["N0", "N1", "N2", "N3"]


def test_a_checkpoint_within_an_item_is_refused(
    world: ExampleInstallation, five_items: Callable[[AtThird], UUID]
) -> None:
    job = attempt(world, job_id := five_items(lambda job: job.checkpoint("half")))
    assert (job["status"], job["error"]["class"]) == ("failed", "HandlerMisuse")
    assert ledger(world, job_id) == {"0": "done", "1": "done"}
    assert written(world) == ["N0", "N1"]


@pytest.mark.parametrize("mode", ["IMMEDIATE", "DEFERRED"])
def test_each_item_has_the_default_modes_of_constraints(
    world: ExampleInstallation, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """One constraint is deferred by default, one is checked at once; no item changes that for the next."""
    world.rows("CREATE TABLE late (n integer UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    world.rows('CREATE TABLE "At once" (n integer CONSTRAINT "at once" UNIQUE DEFERRABLE)')
    world.rows(f'GRANT ALL ON late, "At once" TO {world.one.handler_role}')
    refused: list[str] = []

    def deed(job: JobContext, _payload: object) -> dict[str, Any]:
        for step in job.each(range(4)):
            with step as item:
                job.connection.execute("INSERT INTO late VALUES (%s), (%s)", (item.value, item.value))
                job.connection.execute("DELETE FROM late WHERE ctid = (SELECT min(ctid) FROM late WHERE n = %s)",
                                       (item.value,))  # fmt: skip
                try:
                    with job.connection.transaction():
                        job.connection.execute('INSERT INTO "At once" VALUES (1), (1)')
                except psycopg.errors.UniqueViolation:
                    refused.append(str(item.value))
                if item.value == 1:
                    job.connection.execute(f"SET CONSTRAINTS ALL {mode}".encode())
        return {}

    monkeypatch.setitem(DEEDS, "ok", deed)
    job_id = world.enqueue({"how": "ok"}, handler=Odd)
    try:
        assert attempt(world, job_id)["status"] == "completed"
        assert set(ledger(world, job_id).values()) == {"done"}
        assert refused == ["0", "1", "2", "3"]
    finally:
        world.rows('DROP TABLE late, "At once"')


@pytest.mark.parametrize("statement", ["SAVEPOINT item", "RESET ALL", "SET turno.attempt = 'mine'"])
def test_a_failed_item_with_sql_of_the_executor_keeps_nothing(
    world: ExampleInstallation, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    def deed(job: JobContext, _payload: object) -> dict[str, Any]:
        for step in job.each(range(3)):
            with step as item:
                write_counted(job, item.value)
                job.connection.execute(statement.encode())
                if item.value == 1:
                    raise ValueError("this one alone")
        return {}

    monkeypatch.setitem(DEEDS, "ok", deed)
    job_id = world.enqueue({"how": "ok"}, handler=Odd)
    assert attempt(world, job_id)["status"] == "completed"
    assert ledger(world, job_id) == {"0": "done", "1": "failed", "2": "done"}
    assert written(world) == ["N0", "N2"]
