"""Operators' orders to a running worker: it reads them with its heartbeat."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.attempt_here import attempt
from tests.misbehaving_handlers import Odd
from turno.jobs.job import JobRef
from turno.servers.wait import wait_until
from turno.store.operator.run_time_settings import ask_worker, set_type
from turno.tenancy.identity.session import service_session
from turno.wiring.shared import queue_named

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    import psycopg

    from tests.installation import ExampleInstallation

OFTEN = {"TURNO_HEARTBEAT_SECONDS": "0.1", "TURNO_SHUTDOWN_GRACE_SECONDS": "20"}


@pytest.fixture
def operator(world: ExampleInstallation) -> Iterator[psycopg.Connection[Any]]:
    world.odd = True
    world.backend = "pool"
    with service_session(world.logins, world.logins.operator, application="turno-admin") as session:
        yield session


def worker_of(world: ExampleInstallation) -> UUID:
    assert wait_until(lambda: world.rows("SELECT 1 FROM turno.workers") != [], within=20)
    (row,) = world.rows("SELECT id FROM turno.workers")
    found: UUID = row["id"]
    return found


def beats(world: ExampleInstallation) -> None:
    """Wait until the worker has sent two new heartbeats: the second began after this."""
    for _ in range(2):
        before = world.rows("SELECT alive_at FROM turno.workers")
        assert wait_until(partial(_others, world, before), within=20)


def _others(world: ExampleInstallation, before: list[dict[str, Any]]) -> bool:
    return world.rows("SELECT alive_at FROM turno.workers") != before


def test_quiet_worker_claims_nothing_and_stopped_worker_leaves(
    world: ExampleInstallation, operator: psycopg.Connection[Any]
) -> None:
    pool = world.start_pool(**OFTEN)
    worker = worker_of(world)
    ask_worker(operator, worker, "quiet", by="eva")
    beats(world)
    job_id = world.enqueue({"how": "ok"}, handler=Odd)
    beats(world)
    queue = queue_named("pool", world.settings)
    queue.offer(JobRef("suc0001", job_id))
    queue.close()
    beats(world)
    beats(world)
    assert world.job(job_id)["status"] == "pending"
    ask_worker(operator, worker, None, by="eva")
    assert wait_until(lambda: world.job(job_id)["status"] == "completed", within=20)
    ask_worker(operator, worker, "stop", by="eva")
    assert pool.wait(20) == 0
    assert world.rows("SELECT 1 FROM turno.workers") == []


def test_operator_time_limit_ends_a_long_job(world: ExampleInstallation, operator: psycopg.Connection[Any]) -> None:
    job_id = world.enqueue({"how": "loop_forever"}, handler=Odd)
    world.start_pool(**OFTEN)
    assert wait_until(lambda: world.job(job_id)["status"] == "running", within=20)
    set_type(operator, "odd", {"timeout": 1}, by="eva")
    assert wait_until(lambda: world.job(job_id)["reason"] == "time limit of 1 s", within=20)


@pytest.mark.parametrize(("most", "status"), [(1, "failed"), (9, "pending"), (None, "pending")])
def test_operator_max_attempts_overrides_the_code(
    world: ExampleInstallation, operator: psycopg.Connection[Any], most: int | None, status: str
) -> None:
    job_id = world.enqueue({"how": "error"}, handler=Odd)
    set_type(operator, "odd", {"max_attempts": most}, by="eva")
    assert attempt(world, job_id)["status"] == status


@pytest.mark.parametrize(("days", "purged"), [(1, 1), (90, 0), (None, 1)])
def test_operator_retention_keeps_ended_jobs(
    world: ExampleInstallation, operator: psycopg.Connection[Any], days: int | None, purged: int
) -> None:
    attempt(world, world.enqueue({"how": "ok"}, handler=Odd))
    age = "40 days" if days != 1 else "2 days"
    world.rows("UPDATE background_jobs SET finished_at = finished_at - %s::interval", age)
    set_type(operator, "odd", {"retention_days": days}, by="eva")
    row = world.engine.execute(f"SELECT {world.one.schema}.job_purge('30 days', 10)".encode()).fetchone()
    assert row == (purged,)
