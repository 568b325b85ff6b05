"""Tickets without jobs, tenants without schemas, and a worker that claims them."""

from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from tests.installation import ExampleInstallation
from turno.jobs.job import Claim
from turno.store.engine.claims import Claimer

KNOWN = [("work", 1)]


INVOICING = [("batch_invoicing", 1)]


class Clock:
    """The workers' clock, which advances with each look at it on any machine; a test may put it ahead.

    A claim looks two to four times and so takes one to two milliseconds by it, as on an idle machine.
    """

    A_LOOK = 0.0005

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        self.ahead += self.A_LOOK
        return self.ahead


CLOCK = Clock()


CLAIMERS: dict[tuple[tuple[str, int], ...], Claimer] = {}


def start(example: ExampleInstallation) -> UUID:
    return example.engine.start_worker(backend="exec", host="test", pid=1)


def wait(example: ExampleInstallation, count: int, tenant: str = "suc0001", **columns: Any) -> None:
    """Tickets as enqueueing leaves them, without their jobs; later ones are younger."""
    row = {"type": "work", "version": 1, "queue": "hot", "priority": 1, "backend": "exec", "age": 60} | columns
    example.rows(
        "INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend)"
        " SELECT turno.uuid_v7(), n.id, %s, %s, %s, %s,"
        "        clock_timestamp() - %s * interval '1 s' + i * interval '1 us', 'ready', %s"
        " FROM turno.tenants n, generate_series(1, %s) AS i WHERE n.slug = %s",
        *(row[name] for name in ("queue", "type", "version", "priority", "age", "backend")),
        count,
        tenant,
    )


def more_tenants(example: ExampleInstallation, count: int, start_at: int = 1) -> list[str]:
    slugs = [f"more{number:04d}" for number in range(start_at, start_at + count)]
    example.rows(
        "INSERT INTO turno.tenants (slug, company_id, schema, owner_role, handler_role, api_role, state)"
        " SELECT s, c.id, 't_' || substr(md5(s), 1, 12), 'o' || s, 'r' || s, 'a' || s, 'active'"
        " FROM turno.companies c, unnest(%s::text[]) AS s",
        slugs,
    )
    return slugs


def claimer(types: Sequence[tuple[str, int]] = KNOWN) -> Claimer:
    """Return the worker's that knows these types, the same throughout a test."""
    if tuple(types) not in CLAIMERS:
        CLAIMERS[tuple(types)] = Claimer(backend="exec", queues=["hot"], types=types, clock=CLOCK)
    return CLAIMERS[tuple(types)]


def claim(
    example: ExampleInstallation,
    slots: int = 1,
    *,
    types: Sequence[tuple[str, int]] = KNOWN,
    without: Sequence[str] = (),
) -> list[Claim]:
    batches = claimer(types).claim(example.engine, start(example), slots=slots, without=without)
    return [claimed for batch in batches for claimed in batch]


def finish(example: ExampleInstallation) -> None:
    """End the running jobs, as completion does to tickets."""
    example.rows("DELETE FROM turno.tickets WHERE state = 'running'")


def slugs(claims: list[Claim]) -> Counter[str]:
    return Counter(claimed.login.slug for claimed in claims)
