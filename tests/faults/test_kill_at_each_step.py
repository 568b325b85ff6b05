"""Kill -9 of the supervisor, the child or both at every step of a job's life; then cron mends what is left."""

from itertools import pairwise
from uuid import UUID

import pytest

from cli.deadline import becomes_true
from tests.world import World

# In the child, where `parent` is its supervisor; chunks are of 50 items, so the batch is larger than one.
CHILD_STEPS = ["started", "chunk_recorded", "chunk_committed", "completing", "completed", "leaving"]


@pytest.fixture(autouse=True)
def two_chunks(world: World) -> None:
    """Enough orders that the batch has more than one chunk."""
    world.rows(
        "INSERT INTO orders (id, customer_id, ordered_on, currency)"
        " SELECT 500000 + n, customer_id, ordered_on, currency"
        " FROM generate_series(1, 20) n, LATERAL (SELECT * FROM orders ORDER BY id LIMIT 1) o ON CONFLICT DO NOTHING"
    )
    world.rows(
        "INSERT INTO order_lines (order_id, line_no, product_id, quantity, unit_price, discount)"
        " SELECT 500000 + n, 1, 1, n, 10, 0 FROM generate_series(1, 20) n ON CONFLICT DO NOTHING"
    )


def mend_until_ended(world: World, job_id: UUID) -> None:
    def ended() -> bool:
        if world.job(job_id)["finished_at"] is not None:
            return True
        world.time_passes()
        world.sweep()
        return False

    assert becomes_true(ended, within=60, every=0.3), world.job(job_id)


def assert_exactly_once(world: World, job_id: UUID) -> None:
    job = world.job(job_id)
    assert job["status"] == "completed", job
    orders = world.order_ids()
    assert sorted(row["order_id"] for row in world.rows("SELECT order_id FROM invoices")) == orders
    for letter in "AB":
        rows = world.rows("SELECT number FROM invoices WHERE letter = %s ORDER BY number", letter)
        numbers = [row["number"] for row in rows]
        assert numbers == list(range(1, len(numbers) + 1))
    assert len(world.rows("SELECT 1 FROM notifications WHERE job_id = %s", job_id)) == 1
    ledger = world.rows(
        "SELECT state, count(*) AS n FROM background_job_items WHERE job_id = %s GROUP BY state", job_id
    )
    assert ledger == [{"state": "done", "n": len(orders)}]
    assert world.ticket(job_id) is None
    attempts = world.rows("SELECT * FROM background_job_attempts WHERE job_id = %s ORDER BY attempt", job_id)
    assert all(later["attempt"] > earlier["attempt"] for earlier, later in pairwise(attempts))
    assert all(attempt["finished_at"] is not None for attempt in attempts)


def run_and_mend(world: World, crash_at: str) -> UUID:
    job_id = world.enqueue({"order_ids": world.order_ids()})
    world.work(job_id, crash_at=crash_at)
    mend_until_ended(world, job_id)
    return job_id


@pytest.mark.parametrize("whom", ["self", "parent", "both"])
@pytest.mark.parametrize("step", CHILD_STEPS)
def test_a_kill_in_the_child_s_life_neither_loses_nor_doubles(world: World, step: str, whom: str) -> None:
    assert_exactly_once(world, run_and_mend(world, f"{step}:{whom}"))


def test_a_kill_in_the_second_chunk_keeps_the_first(world: World) -> None:
    job_id = run_and_mend(world, "chunk_recorded:self:2")
    assert_exactly_once(world, job_id)
    assert world.job(job_id)["crashes"] == 1


def test_a_supervisor_killed_after_its_claim_costs_the_job_nothing(world: World) -> None:
    job_id = run_and_mend(world, "claimed")
    assert_exactly_once(world, job_id)
    assert world.job(job_id)["crashes"] == 0


def test_a_job_that_was_accepted_and_never_launched_is_found(world: World) -> None:
    job_id = world.enqueue({"order_ids": world.order_ids()})
    mend_until_ended(world, job_id)
    assert_exactly_once(world, job_id)
