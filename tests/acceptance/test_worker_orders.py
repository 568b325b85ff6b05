"""Operators' orders to a running worker: it reads them with its heartbeat."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.attempt_in_process import attempt
from tests.misbehaving_handlers import Faulty
from turno.jobs.job import JobRef
from turno.store.operator.run_time_settings import ask_worker, set_type
from turno.tenancy.identity.session import service_session
from turno.testing.wait import wait_until
from turno.wiring.shared import queue_named

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    import psycopg

    from tests.installation import ExampleInstallation

OFTEN = {"TURNO_HEARTBEAT_SECONDS": "0.1", "TURNO_SHUTDOWN_GRACE_SECONDS": "20"}


@pytest.fixture
def operator(example: ExampleInstallation) -> Iterator[psycopg.Connection[Any]]:
    example.faulty = True
    example.backend = "pool"
    with service_session(example.logins, example.logins.operator, application="turno-admin") as session:
        yield session


def worker_of(example: ExampleInstallation) -> UUID:
    assert wait_until(lambda: example.rows("SELECT 1 FROM turno.workers") != [], within=20)
    (row,) = example.rows("SELECT id FROM turno.workers")
    result: UUID = row["id"]
    return result


def beats(example: ExampleInstallation) -> None:
    """Wait until the worker has sent two new heartbeats: the second began after this."""
    for _ in range(2):
        before = example.rows("SELECT alive_at FROM turno.workers")
        assert wait_until(partial(_others, example, before), within=20)


def _others(example: ExampleInstallation, before: list[dict[str, Any]]) -> bool:
    return example.rows("SELECT alive_at FROM turno.workers") != before


def test_quiet_worker_claims_nothing_and_stopped_worker_leaves(
    example: ExampleInstallation, operator: psycopg.Connection[Any]
) -> None:
    pool = example.start_pool(**OFTEN)
    worker = worker_of(example)
    ask_worker(operator, worker, "quiet", by="eva")
    beats(example)
    job_id = example.enqueue({"how": "ok"}, handler=Faulty)
    beats(example)
    queue = queue_named("pool", example.settings)
    queue.offer(JobRef("suc0001", job_id))
    queue.close()
    beats(example)
    beats(example)
    assert example.job(job_id)["status"] == "pending"
    ask_worker(operator, worker, None, by="eva")
    assert wait_until(lambda: example.job(job_id)["status"] == "completed", within=20)
    ask_worker(operator, worker, "stop", by="eva")
    assert pool.wait(20) == 0
    assert example.rows("SELECT 1 FROM turno.workers") == []


def test_operator_time_limit_ends_a_long_job(example: ExampleInstallation, operator: psycopg.Connection[Any]) -> None:
    job_id = example.enqueue({"how": "loop_forever"}, handler=Faulty)
    example.start_pool(**OFTEN)
    assert wait_until(lambda: example.job(job_id)["status"] == "running", within=20)
    set_type(operator, "faulty", {"timeout": 1}, by="eva")
    assert wait_until(lambda: example.job(job_id)["reason"] == "time limit of 1 s", within=20)


@pytest.mark.parametrize(("most", "status"), [(1, "failed"), (9, "pending"), (None, "pending")])
def test_operator_max_attempts_overrides_the_code(
    example: ExampleInstallation, operator: psycopg.Connection[Any], most: int | None, status: str
) -> None:
    job_id = example.enqueue({"how": "error"}, handler=Faulty)
    set_type(operator, "faulty", {"max_attempts": most}, by="eva")
    assert attempt(example, job_id)["status"] == status


@pytest.mark.parametrize(("days", "purged"), [(1, 1), (90, 0), (None, 1)])
def test_operator_retention_keeps_ended_jobs(
    example: ExampleInstallation, operator: psycopg.Connection[Any], days: int | None, purged: int
) -> None:
    attempt(example, example.enqueue({"how": "ok"}, handler=Faulty))
    age = "40 days" if days != 1 else "2 days"
    example.rows("UPDATE background_jobs SET finished_at = finished_at - %s::interval", age)
    set_type(operator, "faulty", {"retention_days": days}, by="eva")
    assert example.engine.purge(example.one.schema, timedelta(days=30), 10) == purged
