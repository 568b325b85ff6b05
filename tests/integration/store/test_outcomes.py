"""Metrics of an ended attempt or job: its waiting time while it could have run, and its running time."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.attempt_in_process import attempt
from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import Faulty

HOUR = 3_600_000  # milliseconds


def outcome(example: ExampleInstallation) -> dict[str, Any]:
    row: dict[str, Any] = example.rows("SELECT outcome, wait_ms, run_ms FROM turno.outcomes ORDER BY at")[-1]
    return row


def long_ago(example: ExampleInstallation, job_id: UUID) -> None:
    """Put everything that happened to the job back by an hour."""
    example.rows("UPDATE background_jobs SET created_at = created_at - interval '1 h',"
                 " run_at = run_at - interval '1 h', started_at = started_at - interval '1 h'"
                 " WHERE id = %s", job_id)  # fmt: skip
    example.rows("UPDATE background_job_attempt_rows SET started_at = started_at - interval '1 h',"
                 " finished_at = finished_at - interval '1 h' WHERE job_id = %s", job_id)  # fmt: skip


def due_since(example: ExampleInstallation, job_id: UUID, milliseconds: int) -> None:
    example.rows("UPDATE background_jobs SET run_at = clock_timestamp() - %s WHERE id = %s",
                 timedelta(milliseconds=milliseconds), job_id)  # fmt: skip
    example.rows("UPDATE turno.tickets SET state = 'ready', run_at = clock_timestamp() WHERE job_id = %s", job_id)


def test_untaken_job_has_waited_since_its_creation(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"how": "ok"}, handler=Faulty)
    long_ago(example, job_id)
    attempt(example, job_id)
    assert HOUR <= outcome(example)["wait_ms"] < HOUR + 60_000
    assert outcome(example)["run_ms"] < 60_000


@pytest.mark.parametrize("how", ["reschedule_after", "error"])
def test_retry_outcome_counts_its_own_wait_and_run(example: ExampleInstallation, how: str) -> None:
    job_id = example.enqueue({"how": how}, handler=Faulty)
    attempt(example, job_id)
    long_ago(example, job_id)
    due_since(example, job_id, 5_000)
    example.rows('UPDATE background_jobs SET payload = \'{"how": "ok"}\' WHERE id = %s', job_id)
    assert attempt(example, job_id)["status"] == "completed"
    assert 5_000 <= outcome(example)["wait_ms"] < 60_000
    assert outcome(example)["run_ms"] < 60_000


def test_attempt_time_is_counted_once_at_its_end(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"how": "error"}, handler=Faulty)
    attempt(example, job_id)
    example.rows("UPDATE background_job_attempt_rows SET started_at = finished_at - interval '1 h'")
    due_since(example, job_id, 0)
    example.rows('UPDATE background_jobs SET payload = \'{"how": "ok"}\' WHERE id = %s', job_id)
    assert attempt(example, job_id)["status"] == "completed"
    reply = example.rows("SELECT outcome, run_ms < 60000 AS short FROM turno.outcomes ORDER BY at")
    assert reply == [{"outcome": "retried", "short": True}, {"outcome": "completed", "short": True}]


@pytest.mark.parametrize("run_at", ["infinity", "2100-01-01"])
def test_a_job_cancelled_before_its_time_never_waited(example: ExampleInstallation, run_at: str) -> None:
    job_id = example.enqueue({"how": "ok"}, handler=Faulty)
    long_ago(example, job_id)
    example.rows("UPDATE background_jobs SET run_at = %s::timestamptz WHERE id = %s", run_at, job_id)
    assert example.cancel(job_id) == "cancelled"
    assert outcome(example) == {"outcome": "cancelled", "wait_ms": 0, "run_ms": None}


def test_a_job_cancelled_while_it_waits_waited_to_the_end(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"how": "ok"}, handler=Faulty)
    long_ago(example, job_id)
    assert example.cancel(job_id) == "cancelled"
    assert outcome(example)["wait_ms"] >= HOUR
