"""Failed items are failures for operators: recorded with the end of their job, grouped, retried and discarded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.attempt_here import attempt
from tests.misbehaving_handlers import Odd
from tests.misdeeds.deed import DEEDS, OddPayload
from turno.errors import PermanentFailure
from turno.store.engine.engine import Engine
from turno.tenancy.identity.session import service_session

if TYPE_CHECKING:
    from uuid import UUID

    from tests.installation import ExampleInstallation
    from turno.jobs.job_context import JobContext

LETTERS = "SELECT job_id, outcome, error, items_done, items_failed, closed_as FROM turno.dead_letters"


def items(job: JobContext, payload: OddPayload) -> dict[str, Any]:
    """A batch of `number` items; items with a number in `text` fail."""
    for step in job.each(range(payload.number)):
        with step:
            if str(step.value) in payload.text.split(","):
                raise ValueError(f"item {step.value} is bad")
    return {}


@pytest.fixture(autouse=True)
def batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DEEDS, "items", items)


def batch(world: ExampleInstallation, number: int, fails: str) -> UUID:
    return world.enqueue({"how": "items", "number": number, "text": fails}, handler=Odd)


def recorded(world: ExampleInstallation) -> list[tuple[Any, ...]]:
    rows = world.rows("SELECT outcome, items_done, items_failed FROM turno.outcomes ORDER BY at")
    return [tuple(row.values()) for row in rows]


def count(world: ExampleInstallation) -> None:
    with Engine.on(service_session(world.logins, world.logins.engine, application="test")) as engine:
        engine.count_outcomes(10_000)
        engine.execute("SELECT fold_dead_letter_counts()")


@pytest.mark.parametrize(
    ("number", "fails", "outcome"),
    [(3, "", ("completed", 3, 0)), (4, "1,2", ("completed_with_failures", 2, 2)), (2, "0,1", ("nothing_done", 0, 2))],
)
def test_jobs_finish_records_items_and_outcome(
    world: ExampleInstallation, number: int, fails: str, outcome: tuple[str, int, int]
) -> None:
    job_id = batch(world, number, fails)
    assert attempt(world, job_id)["status"] == "completed"
    assert recorded(world) == [outcome]
    letters = world.rows(LETTERS)
    if outcome[2]:
        (letter,) = letters
        assert (letter["job_id"], letter["outcome"], letter["items_done"], letter["items_failed"]) == (job_id, *outcome)
    else:
        assert letters == []


def test_jobs_finish_names_the_most_frequent_item_error(
    world: ExampleInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deed(job: JobContext, _payload: OddPayload) -> dict[str, Any]:
        for step in job.each(range(5)):
            with step:
                raise (
                    LookupError("no price") if step.value == 0 else ValueError(f"order {step.value} of 'Ana' is empty")
                )
        return {}

    monkeypatch.setitem(DEEDS, "ok", deed)
    attempt(world, world.enqueue({"how": "ok"}, handler=Odd))
    assert [row["error"] for row in world.rows(LETTERS)] == ["ValueError: order # of … is empty"]


def test_a_failed_job_records_its_items_once(world: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    def deed(job: JobContext, _payload: OddPayload) -> dict[str, Any]:
        for step in job.each(range(3)):
            with step:
                if step.value == 1:
                    raise ValueError("empty")
        raise PermanentFailure("the file ends too early")

    monkeypatch.setitem(DEEDS, "ok", deed)
    assert attempt(world, world.enqueue({"how": "ok"}, handler=Odd))["status"] == "failed"
    assert recorded(world) == [("failed", 2, 1)]
    (letter,) = world.rows(LETTERS)
    assert (letter["outcome"], letter["error"]) == ("failed", "PermanentFailure: the file ends too early")


def test_parts_record_their_items_with_their_job(world: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    def whole(job: JobContext, _payload: OddPayload) -> dict[str, Any]:
        job.fan_out(Odd, [{"how": "items", "number": 2, "text": "1"}] * 2, total=4)
        return {}

    monkeypatch.setitem(DEEDS, "whole", whole)
    job_id = world.enqueue({"how": "whole"}, handler=Odd)
    world.odd = True
    world.drain()
    ends = [one for one in recorded(world) if one[0] != "rescheduled"]
    assert ends == [("completed_with_failures", None, None)] * 2 + [("completed_with_failures", 2, 2)]
    assert [row["job_id"] for row in world.rows(LETTERS)] == [job_id]
    assert len(world.rows("SELECT job_id FROM turno.ended_jobs")) == 2, "the parts"


def test_progress_of_a_completed_job_is_complete(world: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    def deed(job: JobContext, _payload: OddPayload) -> dict[str, Any]:
        for number in range(3):
            job.progress(number, 3, "row")
        return {}

    monkeypatch.setitem(DEEDS, "ok", deed)
    job_id = world.enqueue({"how": "ok"}, handler=Odd)
    before = attempt(world, job_id)
    assert before["status"] == "completed"
    (shown,) = world.rows("SELECT done, total, revision FROM background_job_progress WHERE job_id = %s", job_id)
    assert (shown["done"], shown["total"]) == (3, 3)
    (told,) = world.rows("SELECT data FROM notifications WHERE job_id = %s", job_id)
    assert (told["data"]["done"], told["data"]["total"]) == (3, 3)
    assert recorded(world) == [("completed", None, None)], "steps of a progress bar are no items"


def test_retry_closes_the_failure_and_runs_failed_items(world: ExampleInstallation) -> None:
    job_id = batch(world, 4, "1,2")
    attempt(world, job_id)
    made = world.retry(job_id)
    assert made["verdict"] == "accepted"
    assert [row["closed_as"] for row in world.rows(LETTERS)] == ["replayed"]
    attempt(world, made["job_id"])
    states = world.rows("SELECT key, state FROM background_job_items WHERE job_id = %s ORDER BY key", made["job_id"])
    assert [row["state"] for row in states] == ["skipped", "failed", "failed", "skipped"]


def test_discard_closes_failed_items_once(world: ExampleInstallation) -> None:
    job_id = batch(world, 2, "1")
    attempt(world, job_id)
    discard = (
        "SELECT verdict FROM {}.jobs_command("
        "'discard', ARRAY[%s]::uuid[], 'olga', 'exec', NULL, NULL, NULL, NULL, NULL, NULL)"
    )
    assert [world.call(discard, (job_id,))["verdict"] for _ in range(2)] == ["discarded", "discarded before"]
    assert [row["closed_as"] for row in world.rows(LETTERS)] == ["discarded"]


def test_counts_of_failures_follow_each_change(world: ExampleInstallation) -> None:
    counts = "SELECT outcome, sum(jobs)::int AS jobs, sum(open)::int AS open, sum(items)::int AS items FROM"
    counts += " turno.dead_letter_counts GROUP BY outcome HAVING sum(jobs) > 0 ORDER BY outcome"
    jobs = [batch(world, 3, "1,2"), batch(world, 2, "0,1")]
    for job_id in jobs:
        attempt(world, job_id)
    for _ in range(2):
        assert [tuple(row.values()) for row in world.rows(counts)] == [
            ("completed_with_failures", 1, 1, 2),
            ("nothing_done", 1, 1, 2),
        ]
        count(world)
    world.retry(jobs[1])
    assert [tuple(row.values()) for row in world.rows(counts)] == [
        ("completed_with_failures", 1, 1, 2),
        ("nothing_done", 1, 0, 0),
    ]


def test_purge_removes_failures_with_their_jobs(world: ExampleInstallation) -> None:
    attempt(world, batch(world, 2, "1"))
    world.rows("UPDATE background_jobs SET finished_at = now() - interval '31 days'")
    world.sweep()
    assert (world.rows("SELECT FROM background_jobs"), world.rows(LETTERS)) == ([], [])


@pytest.mark.parametrize("failed", [None, 0, 2])
@pytest.mark.parametrize("done", [None, 0, 3])
@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_outcome_of_agrees_with_the_label(
    world: ExampleInstallation, status: str, done: int | None, failed: int | None
) -> None:
    from turno.jobs.label import outcome  # noqa: PLC0415 - the name of a parameter above

    (row,) = world.rows("SELECT outcome_of(%s, %s, %s) AS outcome", status, done, failed)
    assert row["outcome"] == outcome(status, done, failed)
