"""Sets of new jobs: one function inserts them from every source."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from tests.installation import ExampleInstallation
from turno.dispatch.dispatcher import submission
from turno.jobs.new_job import NewJob
from turno.tenancy.identity.session import as_api

ENQUEUE = "SELECT * FROM {}.jobs_enqueue(NULL, %s, %s, %s::jsonb, false, %s::jsonb)"


def enqueue(example: ExampleInstallation, *jobs: NewJob, **limits: Any) -> list[dict[str, Any]]:
    with as_api(example.web, example.one) as cursor:
        return cursor.execute(ENQUEUE, submission(*jobs, **limits)).fetchall()


def test_new_job_has_the_names_of_the_sql_type(example: ExampleInstallation) -> None:
    attributes = example.rows("SELECT attname FROM pg_attribute WHERE attrelid = 'turno.new_job'::regclass")
    assert {field.name for field in fields(NewJob)} <= {row["attname"] for row in attributes}


def test_set_runs_in_its_order(example: ExampleInstallation) -> None:
    rows = enqueue(example, *(example.new_job({"order_ids": [number]}) for number in range(20)))
    assert [row["n"] for row in rows] == list(range(1, 21))
    due = example.rows("SELECT job_id FROM turno.tickets ORDER BY run_at")
    assert [row["job_id"] for row in rows] == [row["job_id"] for row in due]


@pytest.mark.parametrize(
    ("limits", "verdict"), [({"day_limits": '{"jobs_per_day_per_user": 3}'}, "limit"), ({"pending_limit": 3}, "quota")]
)
def test_set_counts_each_job_against_the_limits(
    example: ExampleInstallation, limits: dict[str, Any], verdict: str
) -> None:
    example.rows("DELETE FROM turno.rate_limits")
    jobs = [example.new_job({"order_ids": [number]}) for number in range(2)]
    assert [row["verdict"] for row in enqueue(example, *jobs, **limits)] == ["accepted", "accepted"]
    assert [row["verdict"] for row in enqueue(example, *jobs, **limits)] == [verdict]
    assert len(example.rows("SELECT id FROM background_jobs")) == 2


def test_set_with_a_key_twice_has_one_job_of_it(example: ExampleInstallation) -> None:
    first, other = ({"order_ids": [number]} for number in (1, 2))
    given = [
        example.new_job(first, idempotency_key="a"),
        example.new_job(first),
        example.new_job(first, idempotency_key="a"),
        example.new_job(other, idempotency_key="a"),
    ]
    rows = enqueue(example, *given)
    assert [row["verdict"] for row in rows] == ["accepted", "accepted", "replayed", "conflict"]
    assert rows[0]["job_id"] == rows[2]["job_id"] == rows[3]["job_id"]
    assert {row["id"] for row in example.rows("SELECT id FROM background_jobs")} == {row["job_id"] for row in rows}
    assert [row["verdict"] for row in enqueue(example, *given[:1])] == ["replayed"]


def test_retry_takes_a_key_that_an_ended_job_still_has(example: ExampleInstallation) -> None:
    """The ended job without an own lifetime gives its key to a submission that is unique while open, and to a retry."""
    failed = example.enqueue({"order_ids": [1]}, idempotency_key="a", unique_for="open")
    example.cancel(failed)
    ended = example.enqueue({"order_ids": [1]}, idempotency_key="a")
    assert example.retry(failed)["verdict"] == "not_retryable"
    example.cancel(ended)
    assert example.retry(failed)["verdict"] == "accepted"
