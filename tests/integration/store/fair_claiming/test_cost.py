"""The rows that a claim reads: none that it cannot take, and dead rows of an old snapshot only once."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest

from tests.installation import ExampleInstallation
from tests.integration.store.fair_claiming.work import (
    CLAIMERS,
    CLOCK,
    KNOWN,
    claim,
    claimer,
    finish,
    more_tenants,
    slugs,
    start,
    wait,
)
from turno.store.engine.claims import GAP_BELIEVED, ClaimMemory

WALKED = "SELECT pg_stat_get_xact_tuples_returned(%s::regclass)"


class Forgetful(ClaimMemory):
    """Remembers no hints."""

    def known(self, slots: int, now: float) -> dict[str, Any]:
        """Return no hints."""
        self._hints.clear()
        return super().known(slots, now)


@pytest.mark.parametrize(
    "foreign",
    [
        {"type": "unknown"},
        {"version": 2},
        {"version": 0},
        {"backend": "pool"},
        {"queue": "cold"},
        {"type": "unknown", "priority": 0},
    ],
    ids=str,
)
def test_unserved_tickets_are_not_scanned(world: ExampleInstallation, foreign: dict[str, Any]) -> None:
    wait(world, 200)
    before = walked(world, 10)
    wait(world, 20_000, age=3600, **foreign)
    claim(world)  # where it lies in front, it is walked over once
    assert walked(world, 10) <= before + 15
    assert {(held.type, held.version) for held in claim(world, 500)} == {("work", 1)}
    assert world.rows("SELECT count(*) FROM turno.tickets WHERE state = 'ready'") == [{"count": 20_000}]


@contextmanager
def left_open(world: ExampleInstallation) -> Iterator[None]:
    """A transaction somewhere that began before, and from which vacuum must keep everything."""
    with closing(psycopg.connect(world.url)) as other:
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT pg_current_xact_id()")
        yield


def run_through(world: ExampleInstallation, count: int, tenant: str) -> None:
    wait(world, count, tenant)
    world.rows(
        "UPDATE turno.tickets SET state = 'running', worker_id = gen_random_uuid(), token = gen_random_uuid()"
        " WHERE state = 'ready'"
    )
    finish(world)


def entries(world: ExampleInstallation, index: str) -> int:
    (row,) = world.engine.execute(WALKED, [f"turno.{index}"]).fetchall()
    return int(row[0])


def walked(world: ExampleInstallation, claims: int) -> float:
    """Index entries that a claim of one ticket reads, on average."""
    worker = start(world)
    with world.engine.transaction():
        before = entries(world, "tickets_by_tenant")
        for _ in range(claims):
            assert len(claimer().claim(world.engine, worker, slots=1)) == 1
        return (entries(world, "tickets_by_tenant") - before) / claims


@contextmanager
def forgetful() -> Iterator[None]:
    """Claims that remember no walk."""
    claimer()._memory = Forgetful()
    yield
    CLAIMERS.clear()


@pytest.mark.parametrize("tenants", [1, 10])
def test_a_transaction_left_open_does_not_make_claims_dearer(world: ExampleInstallation, tenants: int) -> None:
    finished = 6000
    names = ["suc0001", *more_tenants(world, tenants - 1)]
    with left_open(world):
        for tenant in names:
            run_through(world, finished // tenants, tenant)
        for tenant in names:
            wait(world, 400 // tenants, tenant, age=0)
        remembered = walked(world, 200)
        with forgetful():
            forgotten = walked(world, 100)
    assert remembered < forgotten / 4
    assert forgotten > finished / tenants


def test_tenants_with_nothing_waiting_are_hopped_over_as_well(world: ExampleInstallation) -> None:
    names = more_tenants(world, 60)
    with left_open(world):
        for tenant in names:
            run_through(world, 100, tenant)
        wait(world, 200, age=0)
        remembered = walked(world, 150)
        with forgetful():
            forgotten = walked(world, 50)
    assert remembered < forgotten / 4
    assert forgotten > 5000


@pytest.mark.parametrize("what", ["after a gap", "after a pause"])
def test_a_visit_after_a_gap_or_a_pause_costs_no_more(world: ExampleInstallation, what: str) -> None:
    names = more_tenants(world, 60)[::20]
    with left_open(world):
        for tenant in names:
            run_through(world, 2000, tenant)
        for tenant in names:
            wait(world, 100, tenant, age=0)
        assert walked(world, 6) > 300  # each was walked through once, and marked
        if what == "after a pause":
            CLOCK.ahead += 10
        assert walked(world, 12) < 300


def test_late_commit_is_claimed_soon_despite_marks(world: ExampleInstallation) -> None:
    with left_open(world):
        run_through(world, 2000, "suc0001")
        wait(world, 50, age=0)
        claim(world)
        wait(world, 1, age=30)
        (late,) = world.rows("SELECT job_id FROM turno.tickets WHERE state = 'ready' ORDER BY run_at LIMIT 1")
        assert late["job_id"] not in {held.job_id for held in claim(world, 3)}
        CLOCK.ahead += 30
        assert late["job_id"] in {held.job_id for held in claim(world, 3)}


def test_resumed_jobs_are_found_behind_other_marks(world: ExampleInstallation) -> None:
    types = [*KNOWN, ("other", 1)]
    world.rows("INSERT INTO turno.job_types (type, paused_at) VALUES ('other', now())")
    wait(world, 2000, type="other", age=3600)
    wait(world, 3)
    assert [held.type for held in claim(world, types=types)] == ["work"]
    world.rows("UPDATE turno.job_types SET paused_at = NULL")
    assert [held.type for held in claim(world, types=types)] == ["other"]


def test_promoting_due_tickets_does_not_grow_dearer_either(world: ExampleInstallation) -> None:
    wait(world, 5000)
    world.rows("UPDATE turno.tickets SET state = 'scheduled', run_at = date_trunc('day', now())")
    with left_open(world), world.engine.transaction():
        before = entries(world, "tickets_due")
        for _ in range(30):
            claim(world)
        assert entries(world, "tickets_due") - before < 5000 * 5  # walked anew each time it would be 25 * 5000 / 2
    assert world.rows("SELECT FROM turno.tickets WHERE state = 'scheduled'") == []


def test_new_tenant_job_is_claimed_at_once_despite_memory(world: ExampleInstallation) -> None:
    names = more_tenants(world, 20)
    with left_open(world):
        for tenant in names:
            run_through(world, 200, tenant)
        assert claim(world, 5) == []
        (new,) = more_tenants(world, 1, start_at=100)
        wait(world, 1, new)
        assert slugs(claim(world, 5)) == {new: 1}
        assert remembers()


def test_idle_tenant_job_is_claimed_soon_despite_memory(world: ExampleInstallation) -> None:
    names = more_tenants(world, 20)
    with left_open(world):
        for tenant in names:
            run_through(world, 200, tenant)
        wait(world, 1, names[15], age=0)
        assert slugs(claim(world, 5)) == {names[15]: 1}
        assert remembers()
        wait(world, 1, names[10], age=0)
        CLOCK.ahead += GAP_BELIEVED
        assert slugs(claim(world, 5)) == {names[10]: 1}


def test_nothing_is_remembered_where_nothing_is_in_the_way(world: ExampleInstallation) -> None:
    for tenant in world.tenants:
        wait(world, 500, tenant)
    for _ in range(20):
        claim(world, 5)
        finish(world)
    assert not remembers()


def remembers() -> bool:
    """Whether the worker remembers tickets to skip."""
    return bool(claimer()._memory.known(1, CLOCK()))
