"""A batch and its ledger: a done item is done once, a failure concerns one item, the rest is tried again."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.attempt_in_process import attempt
from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import Faulty
from tests.misdeeds.deed import DEEDS
from tests.misdeeds.steps import write_counted
from turno.jobs.job_context import JobContext

AtThird = Callable[[JobContext], object]


@pytest.fixture(autouse=True)
def no_customers(example: ExampleInstallation) -> None:
    example.rows("DELETE FROM customers WHERE company_name = 'Faulty'")


@pytest.fixture
def five_items(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> Callable[[AtThird], UUID]:
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
        return example.enqueue({"how": "ok"}, handler=Faulty)

    return enqueue


def cancel_its_statement(job: JobContext) -> None:
    job.connection.execute("SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(60)")


def ledger(example: ExampleInstallation, job_id: UUID) -> dict[str, str]:
    rows = example.rows("SELECT key, state FROM background_job_items WHERE job_id = %s ORDER BY key", job_id)
    return {row["key"]: row["state"] for row in rows}


def written(example: ExampleInstallation) -> list[str]:
    return [row["id"] for row in example.rows("SELECT id FROM customers WHERE country = 'counted' ORDER BY id")]


def test_failed_item_keeps_nothing_and_the_rest_is_kept(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"how": "items", "number": 4, "text": "1,2"}, handler=Faulty)
    job = attempt(example, job_id)
    assert job["result"] == {"done": 2, "failed": 2, "skipped": 0}
    assert ledger(example, job_id) == {"0": "done", "1": "failed", "2": "failed", "3": "done"}
    assert written(example) == ["N0", "N3"]


def test_item_is_not_blamed_for_a_database_error(
    example: ExampleInstallation, five_items: Callable[[AtThird], UUID]
) -> None:
    job_id = five_items(cancel_its_statement)
    job = attempt(example, job_id)
    assert (job["status"], job["errors"], job["error"]["class"]) == ("pending", 1, "QueryCanceled")
    assert ledger(example, job_id) == {"0": "done", "1": "done"}
    assert written(example) == ["N0", "N1"]


def test_visible_work_has_its_attempt(example: ExampleInstallation, five_items: Callable[[AtThird], UUID]) -> None:
    """Also where no supervisor shows the job as running: it may be frozen."""
    query = "SELECT j.status, a.outcome FROM background_jobs j JOIN background_job_attempts a ON a.job_id = j.id"
    seen = []
    job_id = five_items(lambda _job: seen.append((ledger(example, job_id), example.rows(query))))
    attempt(example, job_id)
    assert seen == [({"0": "done", "1": "done"}, [{"status": "running", "outcome": None}])]


def test_later_attempt_runs_only_unfinished_items(
    example: ExampleInstallation, five_items: Callable[[AtThird], UUID]
) -> None:
    job_id = five_items(cancel_its_statement)
    attempt(example, job_id)
    # Doing an item again would fail: its row is there.
    assert attempt(example, job_id)["status"] == "completed"
    assert set(ledger(example, job_id).values()) == {"done"}
    assert written(example) == ["N0", "N1", "N2", "N3", "N4"]


def test_an_item_that_ends_the_transaction_fails_the_job(
    example: ExampleInstallation, five_items: Callable[[AtThird], UUID]
) -> None:
    job = attempt(example, job_id := five_items(lambda job: job.connection.commit()))
    assert (job["status"], job["error"]["class"]) == ("failed", "HandlerMisuse")
    assert ledger(example, job_id) == {"0": "done", "1": "done"}


def test_a_cancellation_within_an_item_is_not_the_item_s_failure(
    example: ExampleInstallation, five_items: Callable[[AtThird], UUID]
) -> None:
    def cancel(job: JobContext) -> None:
        example.cancel(job.job_id)
        job.check_cancelled()

    job = attempt(example, job_id := five_items(cancel))
    assert (job["status"], job["reason"]) == ("cancelled", "cancelled on request")
    assert ledger(example, job_id) == {"0": "done", "1": "done"}
    assert written(example) == ["N0", "N1"]


def test_a_batch_left_early_is_recorded_as_far_as_it_went(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"how": "leave_the_batch_early", "number": 5}, handler=Faulty)
    assert attempt(example, job_id)["status"] == "completed"
    assert written(example) == [f"N{key}" for key in ledger(example, job_id)]
    assert len(written(example)) == 6


def test_checkpoint_commits_two_items_with_their_record(
    example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch
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
    job_id = example.enqueue({"how": "ok"}, handler=Faulty)
    assert attempt(example, job_id)["errors"] == 1
    assert ledger(example, job_id) == {"0": "done", "1": "done"}
    assert written(example) == ["N0", "N1"]
    assert attempt(example, job_id)["result"] == {"done": 4}
    assert written(example) == ["N0", "N1", "N2", "N3"]


def test_a_checkpoint_within_an_item_is_refused(
    example: ExampleInstallation, five_items: Callable[[AtThird], UUID]
) -> None:
    job = attempt(example, job_id := five_items(lambda job: job.checkpoint("half")))
    assert (job["status"], job["error"]["class"]) == ("failed", "HandlerMisuse")
    assert ledger(example, job_id) == {"0": "done", "1": "done"}
    assert written(example) == ["N0", "N1"]


@pytest.mark.parametrize("mode", ["IMMEDIATE", "DEFERRED"])
def test_each_item_has_the_default_modes_of_constraints(
    example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """One constraint is deferred by default, one is checked at once; no item changes that for the next."""
    example.rows("CREATE TABLE late (n integer UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    example.rows('CREATE TABLE "At once" (n integer CONSTRAINT "at once" UNIQUE DEFERRABLE)')
    example.rows(f'GRANT ALL ON late, "At once" TO {example.one.handler_role}')
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
    job_id = example.enqueue({"how": "ok"}, handler=Faulty)
    try:
        assert attempt(example, job_id)["status"] == "completed"
        assert set(ledger(example, job_id).values()) == {"done"}
        assert refused == ["0", "1", "2", "3"]
    finally:
        example.rows('DROP TABLE late, "At once"')


@pytest.mark.parametrize("statement", ["SAVEPOINT item", "RESET ALL", "SET turno.attempt = 'mine'"])
def test_a_failed_item_with_sql_of_the_executor_keeps_nothing(
    example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch, statement: str
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
    job_id = example.enqueue({"how": "ok"}, handler=Faulty)
    assert attempt(example, job_id)["status"] == "completed"
    assert ledger(example, job_id) == {"0": "done", "1": "failed", "2": "done"}
    assert written(example) == ["N0", "N2"]
