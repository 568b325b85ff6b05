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
def nothing_decided(example: ExampleInstallation) -> Iterator[None]:
    example.backend = "pool"
    yield
    example.rows("UPDATE turno.tenants SET cap = NULL, paused_at = NULL")
    example.rows("DELETE FROM turno.job_types")


def offered(example: ExampleInstallation, *, limit: int = 10, waiting_for: timedelta = MINUTE) -> int:
    return len(
        example.engine.unclaimed(backend="pool", queues=["cold"], types=KNOWN, waiting_for=waiting_for, limit=limit)
    )


def wait(example: ExampleInstallation, count: int = 1, **options: Any) -> None:
    for _ in range(count):
        example.enqueue({"order_ids": [1]}, **options)
    example.rows("UPDATE turno.tickets SET run_at = run_at - interval '2 minutes'")


def run_job(example: ExampleInstallation) -> None:
    worker = example.engine.start_worker(backend="pool", host="here", pid=1)
    job_id = example.enqueue({"order_ids": [1]})
    assert example.engine.claim_job(worker, job_id, types=KNOWN)


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
def test_unserved_job_is_not_offered(example: ExampleInstallation, decision: str) -> None:
    run_job(example)
    wait(example, 2)
    assert offered(example) == 2
    example.rows(decision.encode())
    assert offered(example) == 0


def test_paused_or_capped_jobs_hide_no_job(example: ExampleInstallation) -> None:
    run_job(example)
    wait(example, 3)
    wait(example, 2, tenant=example.other)
    example.rows("UPDATE turno.tenants SET cap = 1 WHERE slug = 'suc0001'")
    assert offered(example) == 2
    assert offered(example, limit=1) == 1
    assert offered(example, waiting_for=timedelta(hours=1)) == 0


@pytest.mark.parametrize(
    "look",
    [
        lambda example: example.engine.move_unserved("pool", AT_ONCE),
        lambda example: offered(example, limit=1),
        lambda example: sum(obstacle.waiting for obstacle in example.engine.unserved(AT_ONCE)),
    ],
    ids=["move_unserved", "offer", "unserved"],
)
def test_sweep_reads_no_waiting_jobs(example: ExampleInstallation, look: Callable[[ExampleInstallation], int]) -> None:
    example.engine.start_worker(backend="pool", host="here", pid=1, types=KNOWN)
    example.rows(FILL, example.one.id, "batch_invoicing", "ready", MANY)
    read = "SELECT sum(pg_stat_get_xact_tuples_returned(i::regclass)) AS n FROM unnest(%s::text[]) AS i"
    relations = [
        "turno.tickets",
        "turno.tickets_by_tenant",
        "turno.tickets_ready",
        "turno.tickets_due",
        "turno.tickets_running",
    ]
    with example.engine.transaction():
        look(example)
        row = example.engine.execute(read, [relations]).fetchone()
    assert row is not None
    assert row[0] < 200


def test_due_jobs_of_a_tenant_delay_no_tenant(example: ExampleInstallation) -> None:
    example.rows(FILL, example.one.id, "batch_invoicing", "scheduled", 2_000)
    job_id = example.enqueue({"order_ids": [1]}, tenant=example.other, run_at=datetime.now(UTC) + timedelta(hours=1))
    example.rows("UPDATE turno.tickets SET run_at = clock_timestamp() WHERE job_id = %s", job_id)
    worker = example.engine.start_worker(backend="pool", host="here", pid=1)
    claimer = claiming.claimer(queues=["cold"], types=KNOWN, backend="pool")
    claims = [claim for _ in range(2) for (claim,) in claimer.claim(example.engine, worker, slots=1)]
    assert job_id in {claim.job_id for claim in claims}
