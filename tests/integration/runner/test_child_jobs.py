"""A handler enqueues jobs of its job's user, in its own transaction and by the arguments of `turno.enqueue`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import turno
from handlers.batch_invoicing import BatchInvoicing
from tests.attempt_in_process import attempt
from tests.misbehaving_handlers import Faulty
from tests.misdeeds.deed import DEEDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from tests.installation import ExampleInstallation
    from turno.jobs.job_context import JobContext


@pytest.fixture
def parent(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> Callable[..., UUID]:
    """Enqueue a job that does this when it runs."""

    def enqueue(does: Callable[[JobContext], dict[str, Any]]) -> UUID:
        monkeypatch.setitem(DEEDS, "ok", lambda job, _payload: does(job))
        return example.enqueue({"how": "ok"}, handler=Faulty, correlation_id="c-1")

    return enqueue


def children(example: ExampleInstallation, parent: UUID) -> list[dict[str, Any]]:
    return example.rows("SELECT * FROM background_jobs WHERE parent_id = %s ORDER BY id", parent)


def test_a_child_is_committed_with_its_parent_and_is_its_user_s(
    example: ExampleInstallation, parent: Callable[..., UUID]
) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)

    def ask(job: JobContext) -> dict[str, Any]:
        first = job.enqueue(BatchInvoicing, order_ids=[1], key="a", run_at=later, priority="low")
        again = job.enqueue(BatchInvoicing, {"order_ids": [1]}, key="a", run_at=later, priority="low")
        hour = job.enqueue(BatchInvoicing, order_ids=[2], unique_for=3600)
        same = job.enqueue(BatchInvoicing, order_ids=[2], unique_for=timedelta(hours=1))
        return {"new": [first.is_new, again.is_new, hour.is_new, same.is_new], "same": again.job_id == first.job_id}

    job_id = parent(ask)
    attempt(example, job_id)
    assert example.job(job_id)["result"] == {"new": [True, False, True, False], "same": True}
    child, other_child = children(example, job_id)
    assert (child["user_id"], child["correlation_id"], child["run_at"], child["priority"]) == ("ana", "c-1", later, 2)
    assert other_child["payload"] == {"order_ids": [2], "point_of_sale": 1}


def test_a_job_that_fails_leaves_no_child(example: ExampleInstallation, parent: Callable[..., UUID]) -> None:
    def ask(job: JobContext) -> dict[str, Any]:
        job.enqueue(BatchInvoicing, order_ids=[1])
        raise ValueError("after all")

    job_id = parent(ask)
    attempt(example, job_id)
    assert example.job(job_id)["status"] == "pending"
    assert children(example, job_id) == []


def test_a_child_is_checked_by_its_handler_s_payload(example: ExampleInstallation, parent: Callable[..., UUID]) -> None:
    reply: list[str] = []

    def ask(job: JobContext) -> dict[str, Any]:
        with pytest.raises(turno.InvalidPayload, match="order_ids: is missing"):
            job.enqueue(BatchInvoicing)
        with pytest.raises(turno.UnknownJobType):
            job.enqueue("monthly_report")
        job.enqueue(BatchInvoicing, order_ids=[1], key="a")
        with pytest.raises(turno.NotEnqueued, match="the key a stands for another request") as refused:
            job.enqueue(BatchInvoicing, order_ids=[2], key="a")
        reply.append(str(refused.value))
        return {}

    job_id = parent(ask)
    attempt(example, job_id)
    assert example.job(job_id)["status"] == "completed"
    assert len(reply) == len(children(example, job_id)) == 1
