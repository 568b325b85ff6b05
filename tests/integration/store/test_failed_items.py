"""Failed items are failures for operators: recorded with the end of their job, grouped, retried and discarded."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from tests.attempt_in_process import attempt
from tests.misbehaving_handlers import Faulty
from tests.misdeeds.deed import DEEDS, FaultyPayload
from turno.errors import PermanentFailure
from turno.jobs import label
from turno.store.engine.engine import Engine
from turno.tenancy.identity.session import service_session

if TYPE_CHECKING:
    from uuid import UUID

    from tests.installation import ExampleInstallation
    from turno.jobs.job_context import JobContext

LETTERS = "SELECT job_id, outcome, error, items_done, items_failed, closed_as FROM turno.dead_letters"


def items(job: JobContext, payload: FaultyPayload) -> dict[str, Any]:
    """A batch of `number` items; items with a number in `text` fail."""
    for step in job.each(range(payload.number)):
        with step:
            if str(step.value) in payload.text.split(","):
                raise ValueError(f"item {step.value} is bad")
    return {}


@pytest.fixture(autouse=True)
def batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DEEDS, "items", items)


def batch(example: ExampleInstallation, number: int, fails: str) -> UUID:
    return example.enqueue({"how": "items", "number": number, "text": fails}, handler=Faulty)


def recorded(example: ExampleInstallation) -> list[tuple[Any, ...]]:
    rows = example.rows("SELECT outcome, items_done, items_failed FROM turno.outcomes ORDER BY at")
    return [tuple(row.values()) for row in rows]


def count(example: ExampleInstallation) -> None:
    with Engine.on(service_session(example.logins, example.logins.engine, application="test")) as engine:
        engine.count_outcomes(10_000)
        engine.execute("SELECT fold_dead_letter_counts()")


@pytest.mark.parametrize(
    ("number", "fails", "outcome"),
    [(3, "", ("completed", 3, 0)), (4, "1,2", ("completed_with_failures", 2, 2)), (2, "0,1", ("nothing_done", 0, 2))],
)
def test_jobs_finish_records_items_and_outcome(
    example: ExampleInstallation, number: int, fails: str, outcome: tuple[str, int, int]
) -> None:
    job_id = batch(example, number, fails)
    assert attempt(example, job_id)["status"] == "completed"
    assert recorded(example) == [outcome]
    letters = example.rows(LETTERS)
    if outcome[2]:
        (letter,) = letters
        assert (letter["job_id"], letter["outcome"], letter["items_done"], letter["items_failed"]) == (job_id, *outcome)
    else:
        assert letters == []


def test_jobs_finish_names_the_most_frequent_item_error(
    example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deed(job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
        for step in job.each(range(5)):
            with step:
                raise (
                    LookupError("no price") if step.value == 0 else ValueError(f"order {step.value} of 'Ana' is empty")
                )
        return {}

    monkeypatch.setitem(DEEDS, "ok", deed)
    attempt(example, example.enqueue({"how": "ok"}, handler=Faulty))
    assert [row["error"] for row in example.rows(LETTERS)] == ["ValueError: order # of … is empty"]


def test_a_failed_job_records_its_items_once(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    def deed(job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
        for step in job.each(range(3)):
            with step:
                if step.value == 1:
                    raise ValueError("empty")
        raise PermanentFailure("the file ends too early")

    monkeypatch.setitem(DEEDS, "ok", deed)
    assert attempt(example, example.enqueue({"how": "ok"}, handler=Faulty))["status"] == "failed"
    assert recorded(example) == [("failed", 2, 1)]
    (letter,) = example.rows(LETTERS)
    assert (letter["outcome"], letter["error"]) == ("failed", "PermanentFailure: the file ends too early")


def test_parts_record_their_items_with_their_job(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    def whole(job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
        job.fan_out(Faulty, [{"how": "items", "number": 2, "text": "1"}] * 2, total=4)
        return {}

    monkeypatch.setitem(DEEDS, "whole", whole)
    job_id = example.enqueue({"how": "whole"}, handler=Faulty)
    example.faulty = True
    example.drain()
    ends = [end for end in recorded(example) if end[0] != "rescheduled"]
    assert ends == [("completed_with_failures", None, None)] * 2 + [("completed_with_failures", 2, 2)]
    assert [row["job_id"] for row in example.rows(LETTERS)] == [job_id]
    assert len(example.rows("SELECT job_id FROM turno.ended_jobs")) == 2, "the parts"


def test_progress_of_a_completed_job_is_complete(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    def deed(job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
        for number in range(3):
            job.progress(number, 3, "row")
        return {}

    monkeypatch.setitem(DEEDS, "ok", deed)
    job_id = example.enqueue({"how": "ok"}, handler=Faulty)
    before = attempt(example, job_id)
    assert before["status"] == "completed"
    (shown,) = example.rows("SELECT done, total, revision FROM background_job_progress WHERE job_id = %s", job_id)
    assert (shown["done"], shown["total"]) == (3, 3)
    (reply,) = example.rows("SELECT data FROM notifications WHERE job_id = %s", job_id)
    assert (reply["data"]["done"], reply["data"]["total"]) == (3, 3)
    assert recorded(example) == [("completed", None, None)], "steps of a progress bar are no items"


def test_retry_closes_the_failure_and_runs_failed_items(example: ExampleInstallation) -> None:
    job_id = batch(example, 4, "1,2")
    attempt(example, job_id)
    made = example.retry(job_id)
    assert made["verdict"] == "accepted"
    assert [row["closed_as"] for row in example.rows(LETTERS)] == ["replayed"]
    attempt(example, made["job_id"])
    states = example.rows("SELECT key, state FROM background_job_items WHERE job_id = %s ORDER BY key", made["job_id"])
    assert [row["state"] for row in states] == ["skipped", "failed", "failed", "skipped"]


def test_discard_closes_failed_items_once(example: ExampleInstallation) -> None:
    job_id = batch(example, 2, "1")
    attempt(example, job_id)
    discard = (
        "SELECT verdict FROM {}.jobs_command("
        "'discard', ARRAY[%s]::uuid[], 'olga', 'exec', NULL, NULL, NULL, NULL, NULL, NULL)"
    )
    assert [example.call(discard, (job_id,))["verdict"] for _ in range(2)] == ["discarded", "discarded before"]
    assert [row["closed_as"] for row in example.rows(LETTERS)] == ["discarded"]


def test_counts_of_failures_follow_each_change(example: ExampleInstallation) -> None:
    counts = "SELECT outcome, sum(jobs)::int AS jobs, sum(open)::int AS open, sum(items)::int AS items FROM"
    counts += " turno.dead_letter_counts GROUP BY outcome HAVING sum(jobs) > 0 ORDER BY outcome"
    jobs = [batch(example, 3, "1,2"), batch(example, 2, "0,1")]
    for job_id in jobs:
        attempt(example, job_id)
    for _ in range(2):
        assert [tuple(row.values()) for row in example.rows(counts)] == [
            ("completed_with_failures", 1, 1, 2),
            ("nothing_done", 1, 1, 2),
        ]
        count(example)
    example.retry(jobs[1])
    assert [tuple(row.values()) for row in example.rows(counts)] == [
        ("completed_with_failures", 1, 1, 2),
        ("nothing_done", 1, 0, 0),
    ]


def test_purge_removes_failures_with_their_jobs(example: ExampleInstallation) -> None:
    attempt(example, batch(example, 2, "1"))
    example.rows("UPDATE background_jobs SET finished_at = now() - interval '31 days'")
    example.sweep()
    assert (example.rows("SELECT FROM background_jobs"), example.rows(LETTERS)) == ([], [])


def test_outcome_of_agrees_with_the_label(example: ExampleInstallation) -> None:
    statuses, reasons = ("completed", "failed", "cancelled"), (None, "expired", "cancelled by its user")
    for ended in product(statuses, reasons, (None, 0, 3), (None, 0, 2)):
        (row,) = example.rows("SELECT outcome_of(%s, %s, %s, %s) AS outcome", *ended)
        assert row["outcome"] == label.outcome(*ended), ended
