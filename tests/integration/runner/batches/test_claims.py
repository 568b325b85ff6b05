"""Which jobs a claim takes as a batch."""

import pytest

from tests.batch_here import claim_batches_here, claimer_here
from tests.installation import ExampleInstallation
from tests.integration.runner.batches.batch import claim, put, start_and_take_back
from tests.misbehaving_handlers import Odd, OddBatched


def test_batch_takes_oldest_jobs_of_one_tenant_and_type(world: ExampleInstallation) -> None:
    jobs = put(world, *["ok"] * 11)
    world.enqueue({"how": "ok"}, handler=Odd)
    world.enqueue({"how": "ok"}, handler=OddBatched, tenant=world.other)
    mine = claimer_here()
    batches = [batch for _ in range(4) for batch in claim_batches_here(world, claimer=mine)]
    assert sorted((len(batch), batch[0].type, batch[0].login.slug) for batch in batches) == [
        (1, "odd", "suc0001"), (1, "odd_batched", "suc0002"), (3, "odd_batched", "suc0001"),
        (8, "odd_batched", "suc0001"),
    ]  # fmt: skip
    assert all(len({(one.type, one.tenant_id) for one in batch}) == 1 for batch in batches)
    assert len({one.token for batch in batches for one in batch}) == 13
    (whole,) = [batch for batch in batches if len(batch) == 8]
    assert [one.job_id for one in whole] == jobs[:8]


def test_free_children_get_work_before_larger_shares(world: ExampleInstallation) -> None:
    put(world, *["ok"] * 6)
    assert sorted(map(len, claim_batches_here(world, slots=8))) == [1] * 6
    put(world, *["ok"] * 6)
    assert sorted(map(len, claim_batches_here(world, slots=2))) == [3, 3]


def test_alternating_short_types_make_one_batch_each(world: ExampleInstallation) -> None:
    """As the jobs of an event's subscribers do."""
    jobs = [world.enqueue({"how": "ok"}, handler=handler) for handler in (OddBatched, Odd, OddBatched)]
    batches = [[one.job_id for one in batch] for batch in claim_batches_here(world, slots=2)]
    assert batches == [[jobs[0], jobs[2]], [jobs[1]]]


def test_a_batch_is_one_turn(world: ExampleInstallation) -> None:
    for tenant in world.tenants.values():
        for _ in range(16):
            world.enqueue({"how": "ok"}, handler=OddBatched, tenant=tenant)
    mine = claimer_here()
    order = [claim_batches_here(world, claimer=mine)[0][0].login.slug for _ in range(4)]
    assert order in (["suc0001", "suc0002"] * 2, ["suc0002", "suc0001"] * 2)


def test_short_and_long_jobs_of_two_tenants_have_as_many_turns(world: ExampleInstallation) -> None:
    """It is time that is shared out: a long job is a turn, and so are as many short ones as take no longer."""
    for _ in range(16):
        world.enqueue({"how": "ok"}, handler=OddBatched)
    for _ in range(4):
        world.enqueue({"how": "ok"}, handler=Odd, tenant=world.other)
    mine = claimer_here()
    turns = [batch for _ in range(2) for batch in claim_batches_here(world, slots=2, claimer=mine)]
    assert sorted((batch[0].login.slug, len(batch)) for batch in turns) == [
        ("suc0001", 8), ("suc0001", 8), ("suc0002", 1), ("suc0002", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("whose", ["tenant", "type"])
def test_a_cap_holds_for_batches(world: ExampleInstallation, whose: str) -> None:
    put(world, *["ok"] * 8)
    if whose == "tenant":
        world.rows("UPDATE turno.tenants SET cap = 3 WHERE slug = 'suc0001'")
    else:
        world.rows("INSERT INTO turno.job_types (type, cap) VALUES ('odd_batched', 3)")
    try:
        assert [len(batch) for batch in claim_batches_here(world)] == [3]
        assert claim_batches_here(world) == []
    finally:
        world.rows("UPDATE turno.tenants SET cap = NULL; DELETE FROM turno.job_types")


def test_a_job_that_a_worker_died_with_runs_alone(world: ExampleInstallation) -> None:
    jobs = put(world, *["ok"] * 4)
    start_and_take_back(world, claim(world), blamed=[jobs[0], jobs[2]])
    assert [world.job(job_id)["crashes"] for job_id in jobs] == [1, 0, 1, 0]
    batches = [[one.job_id for one in claim(world)] for _ in range(3)]
    assert sorted(batches) == sorted([[jobs[0]], [jobs[2]], [jobs[1], jobs[3]]])


def test_repaired_ticket_keeps_the_order_to_run_alone(world: ExampleInstallation) -> None:
    first, _ = put(world, "ok", "ok")
    start_and_take_back(world, claim(world), blamed=[first])
    world.rows("DELETE FROM turno.tickets WHERE job_id = %s", first)
    world.engine.repair(world.one.schema, "pool")
    assert [len(claim(world)), len(claim(world))] == [1, 1]
