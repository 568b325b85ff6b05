"""A sweep reads only the tickets that it can change, and not every waiting ticket."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString

import pytest

from tests import claiming
from tests.installation import ExampleInstallation
from turno.store.engine.engine import TypeVersion

KNOWN: list[TypeVersion] = [("batch_invoicing", 1)]
MINUTE, AT_ONCE = timedelta(minutes=1), timedelta(0)
MANY = 20_000
FILL: LiteralString = """
INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend)
SELECT gen_random_uuid(), %s, 'cold', %s, 1, 1, now() - interval '2 minutes' + n * interval '1 ms', %s, 'pool'
FROM generate_series(1, %s) AS n
"""


@pytest.fixture(autouse=True)
def nothing_decided(world: ExampleInstallation) -> Iterator[None]:
    world.backend = "pool"
    yield
    world.rows("UPDATE turno.tenants SET cap = NULL, paused_at = NULL")
    world.rows("DELETE FROM turno.job_types")


def offered(world: ExampleInstallation, *, limit: int = 10, waiting_for: timedelta = MINUTE) -> int:
    return len(
        world.engine.unclaimed(backend="pool", queues=["cold"], types=KNOWN, waiting_for=waiting_for, limit=limit)
    )


def wait(world: ExampleInstallation, count: int = 1, **options: Any) -> None:
    for _ in range(count):
        world.enqueue({"order_ids": [1]}, **options)
    world.rows("UPDATE turno.tickets SET run_at = run_at - interval '2 minutes'")


def run_one(world: ExampleInstallation) -> None:
    worker = world.engine.start_worker(backend="pool", host="here", pid=1)
    job_id = world.enqueue({"order_ids": [1]})
    assert world.engine.claim_job(worker, job_id, types=KNOWN)


@pytest.mark.parametrize(
    "decision",
    [
        "UPDATE turno.tenants SET paused_at = now()",
        "UPDATE turno.tenants SET cap = 1",
        "INSERT INTO turno.job_types (type, paused_at) VALUES ('batch_invoicing', now())",
        "INSERT INTO turno.job_types (type, cap) VALUES ('batch_invoicing', 1)",
        "UPDATE turno.tickets SET type = 'monthly_report' WHERE state = 'ready'",
        "UPDATE turno.tickets SET version = 2 WHERE state = 'ready'",
        "UPDATE turno.tickets SET queue = 'warm' WHERE state = 'ready'",
        "UPDATE turno.tickets SET backend = 'rabbitmq' WHERE state = 'ready'",
        "UPDATE turno.tickets SET run_at = now() WHERE state = 'ready'",
    ],
    ids=[
        "a paused tenant",
        "a tenant at its cap",
        "a paused type",
        "a type at its cap",
        "an unknown type",
        "an unknown version",
        "a queue nobody serves",
        "another backend",
        "not for long",
    ],
)
def test_unserved_job_is_not_offered(world: ExampleInstallation, decision: str) -> None:
    run_one(world)
    wait(world, 2)
    assert offered(world) == 2
    world.rows(decision.encode())
    assert offered(world) == 0


def test_paused_or_capped_jobs_hide_no_job(world: ExampleInstallation) -> None:
    run_one(world)
    wait(world, 3)
    wait(world, 2, tenant=world.other)
    world.rows("UPDATE turno.tenants SET cap = 1 WHERE slug = 'suc0001'")
    assert offered(world) == 2
    assert offered(world, limit=1) == 1
    assert offered(world, waiting_for=timedelta(hours=1)) == 0


@pytest.mark.parametrize(
    "look",
    [
        lambda world: world.engine.move_unserved("pool", AT_ONCE),
        lambda world: offered(world, limit=1),
        lambda world: sum(one.waiting for one in world.engine.unserved(AT_ONCE)),
    ],
    ids=["move_unserved", "offer", "unserved"],
)
def test_sweep_reads_no_waiting_jobs(world: ExampleInstallation, look: Callable[[ExampleInstallation], int]) -> None:
    world.engine.start_worker(backend="pool", host="here", pid=1, types=KNOWN)
    world.rows(FILL, world.one.id, "batch_invoicing", "ready", MANY)
    read = "SELECT sum(pg_stat_get_xact_tuples_returned(i::regclass)) AS n FROM unnest(%s::text[]) AS i"
    relations = [
        "turno.tickets",
        "turno.tickets_by_tenant",
        "turno.tickets_ready",
        "turno.tickets_due",
        "turno.tickets_running",
    ]
    with world.engine.transaction():
        look(world)
        row = world.engine.execute(read, [relations]).fetchone()
    assert row is not None
    assert row[0] < 200


def test_due_jobs_of_a_tenant_delay_no_tenant(world: ExampleInstallation) -> None:
    world.rows(FILL, world.one.id, "batch_invoicing", "scheduled", 2_000)
    job_id = world.enqueue({"order_ids": [1]}, tenant=world.other, run_at=datetime.now(UTC) + timedelta(hours=1))
    world.rows("UPDATE turno.tickets SET run_at = clock_timestamp() WHERE job_id = %s", job_id)
    worker = world.engine.start_worker(backend="pool", host="here", pid=1)
    claimer = claiming.claimer(queues=["cold"], types=KNOWN, backend="pool")
    claims = [claim for _ in range(2) for (claim,) in claimer.claim(world.engine, worker, slots=1)]
    assert job_id in {claim.job_id for claim in claims}
