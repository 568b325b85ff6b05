"""Hooks around each attempt, and the moment after which no attempt begins."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.attempt_in_process import attempt
from tests.misbehaving_handlers import HOOKS, Faulty, FaultyHooked
from tests.misdeeds.deed import DEEDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from tests.installation import ExampleInstallation
    from turno.jobs.job_context import JobContext


@pytest.fixture
def hooked(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> Callable[..., UUID]:
    """Enqueue a job: its hooks and its deed each write a line, and then follow the test's order."""
    example.rows("DELETE FROM customers WHERE company_name = 'Faulty'")

    def writes(name: str, then: Callable[[], Any] | None) -> Callable[..., dict[str, Any]]:
        def step(job: JobContext, _payload: object = None) -> dict[str, Any]:
            job.connection.execute(
                "INSERT INTO customers (id, company_name, tax_condition, address, country)"
                " VALUES (gen_random_uuid()::text, 'Faulty', 'registered', %s, 'hooked')",
                (f"{job.attempt} {name}",),
            )
            return (then() if then else None) or {}

        return step

    def enqueue(**wanted: Callable[[], Any]) -> UUID:
        for name in ("before", "after"):
            monkeypatch.setitem(HOOKS, name, writes(name, wanted.get(name)))
        monkeypatch.setitem(DEEDS, "ok", writes("handle", wanted.get("handle")))
        return example.enqueue({"how": "ok"}, handler=FaultyHooked)

    return enqueue


def lines(example: ExampleInstallation) -> list[str]:
    return sorted(row["address"] for row in example.rows("SELECT address FROM customers WHERE country = 'hooked'"))


def fail_once() -> Callable[[], None]:
    calls: list[int] = []

    def fail() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("once")

    return fail


def test_hooks_commit_together_with_the_work(example: ExampleInstallation, hooked: Callable[..., UUID]) -> None:
    assert attempt(example, hooked())["status"] == "completed"
    assert lines(example) == ["1 after", "1 before", "1 handle"]


@pytest.mark.parametrize("where", ["before", "handle", "after"])
def test_failure_undoes_hooks_and_job_and_retry_runs_all(
    example: ExampleInstallation, hooked: Callable[..., UUID], where: str
) -> None:
    job_id = hooked(**{where: fail_once()})
    job = attempt(example, job_id)
    assert (job["status"], job["error"]["message"], lines(example)) == ("pending", "once", [])
    assert attempt(example, job_id)["status"] == "completed"
    assert lines(example) == ["2 after", "2 before", "2 handle"]


def test_a_job_that_waits_for_its_retry_expires_too(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"how": "error"}, handler=Faulty, expires_at=datetime.now(UTC) + timedelta(hours=1))
    assert attempt(example, job_id)["status"] == "pending"
    example.rows("UPDATE background_jobs SET expires_at = clock_timestamp()")
    assert example.sweep()["expired"] == 1
    job = example.job(job_id)
    assert (job["status"], job["reason"], job["attempt"]) == ("cancelled", "expired", 1)
    assert example.ticket(job_id) is None
