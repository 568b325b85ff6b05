from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from turno.commands.jobs import LIST_HEADERS, details, error, list_row, progress
from turno.commands.output import as_json

NOW = datetime(2030, 1, 31, 9, 0, tzinfo=UTC)


def job(**columns: Any) -> dict[str, Any]:
    """A job as the store reads it, done by default."""
    empty = dict.fromkeys(
        (
            "reason",
            "error",
            "result",
            "expires_at",
            "cancel_requested_at",
            "parts",
            "parent_id",
            "successor_id",
            "message",
            "lacks",
            "trace_context",
        )
    )
    return (
        empty
        | {
            "id": UUID(int=7),
            "type": "batch_invoicing",
            "version": 1,
            "queue": "hot",
            "status": "completed",
            "priority": 1,
            "user_id": "ana",
            "attempt": 1,
            "errors": 0,
            "crashes": 0,
            "max_attempts": 4,
            "run_at": NOW,
            "created_at": NOW,
            "started_at": NOW,
            "finished_at": NOW,
            "correlation_id": None,
            "attributes": {},
            "done": 9,
            "failed": 1,
            "total": 10,
            "now": NOW,
            "run_seconds": 1.2345,
        }
        | columns
    )


def test_a_list_row_has_a_cell_for_each_header() -> None:
    row = dict(zip(LIST_HEADERS, list_row(job()), strict=True))
    assert (row["state"], row["progress"]) == ("done, some failed", "10/10, 1 failed")
    assert (row["seconds"], row["error"]) == (1.2, "")


@pytest.mark.parametrize(
    ("columns", "state"),
    [
        ({"status": "pending", "run_at": None}, "needs review"),
        ({"status": "pending", "run_at": datetime(2031, 1, 1, tzinfo=UTC)}, "scheduled"),
        ({"status": "running", "cancel_requested_at": NOW}, "cancelling"),
        ({"status": "cancelled", "reason": "expired"}, "expired"),
        ({"done": 0, "failed": 10}, "not done, all failed"),
        ({"done": 10, "failed": 0}, "done"),
        ({"done": None, "failed": None, "total": None}, "done"),
    ],
)
def test_the_state_is_the_pages_word(columns: dict[str, Any], state: str) -> None:
    assert dict(details(job(**columns)))["state"] == state


def test_details_omit_empty_values() -> None:
    names = [name for name, _ in details(job(result={"invoiced": 9}))]
    assert "result" in names
    assert "error" not in names
    assert "runs at" not in names


def test_a_job_that_has_not_begun_shows_no_progress() -> None:
    assert progress(job(done=None, failed=None, total=None)) == ""
    assert dict(zip(LIST_HEADERS, list_row(job(run_seconds=None)), strict=True))["seconds"] is None


def test_an_error_is_its_class_and_message() -> None:
    assert error({"class": "UnknownOrder", "message": "There is no order 7"}) == "UnknownOrder: There is no order 7"
    assert error({"class": "KeyError", "message": "7", "reference": "7f3a9c01"}) == "KeyError: 7 (7f3a9c01)"


def test_json_writes_times_and_ids_as_text() -> None:
    assert json.loads(as_json([job()]))[0]["id"] == str(UUID(int=7))
    assert json.loads(as_json(job()))["created_at"] == "2030-01-31T09:00:00Z"


def test_split_job_shows_the_state_of_its_parts() -> None:
    shown = dict(details(job(parts={"total": 10, "ended": 3, "failed": 1})))
    assert shown["parts"] == "3 of 10 ended, 1 failed"


def test_details_name_the_obstacle_of_a_waiting_job() -> None:
    lines = dict(details(job(status="pending", finished_at=None, lacks="type")))
    assert lines["waiting for"] == "no living worker knows batch_invoicing"


def test_details_have_the_attributes_of_capabilities() -> None:
    shown = dict(details(job(attributes={"tags": ["march", "retail"], "colour": "red"})))
    assert (shown["tags"], shown["colour"]) == ("march, retail", "red")
