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
def test_unserved_tickets_are_not_scanned(example: ExampleInstallation, foreign: dict[str, Any]) -> None:
    wait(example, 200)
    before = walked(example, 10)
    wait(example, 20_000, age=3600, **foreign)
    claim(example)  # where it lies in front, it is walked over once
    assert walked(example, 10) <= before + 15
    assert {(claimed.type, claimed.version) for claimed in claim(example, 500)} == {("work", 1)}
    assert example.rows("SELECT count(*) FROM turno.tickets WHERE state = 'ready'") == [{"count": 20_000}]


@contextmanager
def left_open(example: ExampleInstallation) -> Iterator[None]:
    """A transaction somewhere that began before, and from which vacuum must keep everything."""
    with closing(psycopg.connect(example.url)) as other:
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT pg_current_xact_id()")
        yield


def run_through(example: ExampleInstallation, count: int, tenant: str) -> None:
    wait(example, count, tenant)
    example.rows(
        "UPDATE turno.tickets SET state = 'running', worker_id = gen_random_uuid(), token = gen_random_uuid()"
        " WHERE state = 'ready'"
    )
    finish(example)


def entries(example: ExampleInstallation, index: str) -> int:
    (row,) = example.engine.execute(WALKED, [f"turno.{index}"]).fetchall()
    return int(row[0])


def walked(example: ExampleInstallation, claims: int) -> float:
    """Index entries that a claim of one ticket reads, on average."""
    worker = start(example)
    with example.engine.transaction():
        before = entries(example, "tickets_by_tenant")
        for _ in range(claims):
            assert len(claimer().claim(example.engine, worker, slots=1)) == 1
        return (entries(example, "tickets_by_tenant") - before) / claims


@contextmanager
def forgetful() -> Iterator[None]:
    """Claims that remember no walk."""
    claimer()._memory = Forgetful()
    yield
    CLAIMERS.clear()


@pytest.mark.parametrize("tenants", [1, 10])
def test_a_transaction_left_open_does_not_make_claims_dearer(example: ExampleInstallation, tenants: int) -> None:
    finished = 6000
    names = ["suc0001", *more_tenants(example, tenants - 1)]
    with left_open(example):
        for tenant in names:
            run_through(example, finished // tenants, tenant)
        for tenant in names:
            wait(example, 400 // tenants, tenant, age=0)
        remembered = walked(example, 200)
        with forgetful():
            forgotten = walked(example, 100)
    assert remembered < forgotten / 4
    assert forgotten > finished / tenants


def test_tenants_with_nothing_waiting_are_hopped_over_as_well(example: ExampleInstallation) -> None:
    names = more_tenants(example, 60)
    with left_open(example):
        for tenant in names:
            run_through(example, 100, tenant)
        wait(example, 200, age=0)
        remembered = walked(example, 150)
        with forgetful():
            forgotten = walked(example, 50)
    assert remembered < forgotten / 4
    assert forgotten > 5000


@pytest.mark.parametrize("what", ["after a gap", "after a pause"])
def test_a_visit_after_a_gap_or_a_pause_costs_no_more(example: ExampleInstallation, what: str) -> None:
    names = more_tenants(example, 60)[::20]
    with left_open(example):
        for tenant in names:
            run_through(example, 2000, tenant)
        for tenant in names:
            wait(example, 100, tenant, age=0)
        assert walked(example, 6) > 300  # each was walked through once, and marked
        if what == "after a pause":
            CLOCK.ahead += 10
        assert walked(example, 12) < 300


def test_late_commit_is_claimed_soon_despite_marks(example: ExampleInstallation) -> None:
    with left_open(example):
        run_through(example, 2000, "suc0001")
        wait(example, 50, age=0)
        claim(example)
        wait(example, 1, age=30)
        (late,) = example.rows("SELECT job_id FROM turno.tickets WHERE state = 'ready' ORDER BY run_at LIMIT 1")
        assert late["job_id"] not in {claimed.job_id for claimed in claim(example, 3)}
        CLOCK.ahead += 30
        assert late["job_id"] in {claimed.job_id for claimed in claim(example, 3)}


def test_resumed_jobs_are_found_behind_other_marks(example: ExampleInstallation) -> None:
    types = [*KNOWN, ("other", 1)]
    example.rows("INSERT INTO turno.job_types (type, paused_at) VALUES ('other', now())")
    wait(example, 2000, type="other", age=3600)
    wait(example, 3)
    assert [claimed.type for claimed in claim(example, types=types)] == ["work"]
    example.rows("UPDATE turno.job_types SET paused_at = NULL")
    assert [claimed.type for claimed in claim(example, types=types)] == ["other"]


def test_promoting_due_tickets_does_not_grow_dearer_either(example: ExampleInstallation) -> None:
    wait(example, 5000)
    example.rows("UPDATE turno.tickets SET state = 'scheduled', run_at = date_trunc('day', now())")
    with left_open(example), example.engine.transaction():
        before = entries(example, "tickets_due")
        for _ in range(30):
            claim(example)
        assert entries(example, "tickets_due") - before < 5000 * 5  # walked anew each time it would be 25 * 5000 / 2
    assert example.rows("SELECT FROM turno.tickets WHERE state = 'scheduled'") == []


def test_new_tenant_job_is_claimed_at_once_despite_memory(example: ExampleInstallation) -> None:
    names = more_tenants(example, 20)
    with left_open(example):
        for tenant in names:
            run_through(example, 200, tenant)
        assert claim(example, 5) == []
        (new,) = more_tenants(example, 1, start_at=100)
        wait(example, 1, new)
        assert slugs(claim(example, 5)) == {new: 1}
        assert remembers()


def test_idle_tenant_job_is_claimed_soon_despite_memory(example: ExampleInstallation) -> None:
    names = more_tenants(example, 20)
    with left_open(example):
        for tenant in names:
            run_through(example, 200, tenant)
        wait(example, 1, names[15], age=0)
        assert slugs(claim(example, 5)) == {names[15]: 1}
        assert remembers()
        wait(example, 1, names[10], age=0)
        CLOCK.ahead += GAP_BELIEVED
        assert slugs(claim(example, 5)) == {names[10]: 1}


def test_nothing_is_remembered_where_nothing_is_in_the_way(example: ExampleInstallation) -> None:
    for tenant in example.tenants:
        wait(example, 500, tenant)
    for _ in range(20):
        claim(example, 5)
        finish(example)
    assert not remembers()


def remembers() -> bool:
    """Whether the worker remembers tickets to skip."""
    return bool(claimer()._memory.known(1, CLOCK()))
