"""Handlers with an asynchronous `handle` share a transaction as all short handlers do."""

from typing import Any

import psycopg
import pytest

from tests.batch_in_process import execute_batch_in_process
from tests.installation import ExampleInstallation
from tests.integration.runner.batches.batch import claim
from tests.misbehaving_handlers import FaultyBatched
from turno.jobs.job_context import JobContext

INSERT = (
    "INSERT INTO customers (id, company_name, tax_condition, country) VALUES (%s, 'Faulty', 'registered', 'batched')"
)


def run(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch, handle: Any) -> list[dict[str, Any]]:
    """Run three of these as one batch, G0 to G2, and return the jobs."""
    monkeypatch.setattr(FaultyBatched, "handle", handle)
    jobs = [example.enqueue({"how": "ok", "text": f"G{n}"}, handler=FaultyBatched) for n in range(3)]
    execute_batch_in_process(example, claim(example))
    return [example.job(job_id) for job_id in jobs]


def written(example: ExampleInstallation) -> list[str]:
    return [row["id"] for row in example.rows("SELECT id FROM customers WHERE country = 'batched' ORDER BY id")]


def test_failure_costs_no_neighbour(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    async def handle(_self: object, job: JobContext, payload: Any) -> dict[str, Any]:
        await job.async_connection.execute(INSERT, (payload.text,))
        if payload.text == "G1":
            raise ValueError("this one alone")
        return {}

    jobs = run(example, monkeypatch, handle)
    assert [job["status"] for job in jobs] == ["completed", "pending", "completed"]
    assert written(example) == ["G0", "G2"]


def test_kept_reference_reaches_no_later_job(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[psycopg.AsyncConnection[Any]] = []

    async def handle(_self: object, job: JobContext, payload: Any) -> dict[str, Any]:
        kept.append(job.async_connection)
        await kept[0].execute(INSERT, (payload.text,))
        return {}

    jobs = run(example, monkeypatch, handle)
    assert [job["status"] for job in jobs] == ["completed", "failed", "failed"]
    assert {job["error"]["class"] for job in jobs[1:]} == {"HandlerMisuse"}
    assert written(example) == ["G0"]
