"""Which jobs a claim takes as a batch."""

import pytest

from tests.batch_in_process import claim_batches_in_process, pool_claimer
from tests.installation import ExampleInstallation
from tests.integration.runner.batches.batch import claim, put, start_and_take_back
from tests.misbehaving_handlers import Faulty, FaultyBatched


def test_batch_takes_oldest_jobs_of_one_tenant_and_type(example: ExampleInstallation) -> None:
    jobs = put(example, *["ok"] * 11)
    example.enqueue({"how": "ok"}, handler=Faulty)
    example.enqueue({"how": "ok"}, handler=FaultyBatched, tenant=example.other)
    mine = pool_claimer()
    batches = [batch for _ in range(4) for batch in claim_batches_in_process(example, claimer=mine)]
    assert sorted((len(batch), batch[0].type, batch[0].login.slug) for batch in batches) == [
        (1, "faulty", "suc0001"), (1, "faulty_batched", "suc0002"), (3, "faulty_batched", "suc0001"),
        (8, "faulty_batched", "suc0001"),
    ]  # fmt: skip
    assert all(len({(claimed.type, claimed.tenant_id) for claimed in batch}) == 1 for batch in batches)
    assert len({claimed.token for batch in batches for claimed in batch}) == 13
    (whole,) = [batch for batch in batches if len(batch) == 8]
    assert [claimed.job_id for claimed in whole] == jobs[:8]


def test_free_children_get_work_before_larger_shares(example: ExampleInstallation) -> None:
    put(example, *["ok"] * 6)
    assert sorted(map(len, claim_batches_in_process(example, slots=8))) == [1] * 6
    put(example, *["ok"] * 6)
    assert sorted(map(len, claim_batches_in_process(example, slots=2))) == [3, 3]


def test_alternating_short_types_make_one_batch_each(example: ExampleInstallation) -> None:
    """As the jobs of an event's subscribers do."""
    jobs = [example.enqueue({"how": "ok"}, handler=handler) for handler in (FaultyBatched, Faulty, FaultyBatched)]
    batches = [[claimed.job_id for claimed in batch] for batch in claim_batches_in_process(example, slots=2)]
    assert batches == [[jobs[0], jobs[2]], [jobs[1]]]


def test_a_batch_is_one_turn(example: ExampleInstallation) -> None:
    for tenant in example.tenants.values():
        for _ in range(16):
            example.enqueue({"how": "ok"}, handler=FaultyBatched, tenant=tenant)
    mine = pool_claimer()
    order = [claim_batches_in_process(example, claimer=mine)[0][0].login.slug for _ in range(4)]
    assert order in (["suc0001", "suc0002"] * 2, ["suc0002", "suc0001"] * 2)


def test_short_and_long_jobs_of_two_tenants_have_as_many_turns(example: ExampleInstallation) -> None:
    """It is time that is shared out: a long job is a turn, and so are as many short ones as take no longer."""
    for _ in range(16):
        example.enqueue({"how": "ok"}, handler=FaultyBatched)
    for _ in range(4):
        example.enqueue({"how": "ok"}, handler=Faulty, tenant=example.other)
    mine = pool_claimer()
    turns = [batch for _ in range(2) for batch in claim_batches_in_process(example, slots=2, claimer=mine)]
    assert sorted((batch[0].login.slug, len(batch)) for batch in turns) == [
        ("suc0001", 8), ("suc0001", 8), ("suc0002", 1), ("suc0002", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("whose", ["tenant", "type"])
def test_a_cap_holds_for_batches(example: ExampleInstallation, whose: str) -> None:
    put(example, *["ok"] * 8)
    if whose == "tenant":
        example.rows("UPDATE turno.tenants SET cap = 3 WHERE slug = 'suc0001'")
    else:
        example.rows("INSERT INTO turno.job_types (type, cap) VALUES ('faulty_batched', 3)")
    try:
        assert [len(batch) for batch in claim_batches_in_process(example)] == [3]
        assert claim_batches_in_process(example) == []
    finally:
        example.rows("UPDATE turno.tenants SET cap = NULL; DELETE FROM turno.job_types")


def test_a_job_that_a_worker_died_with_runs_alone(example: ExampleInstallation) -> None:
    jobs = put(example, *["ok"] * 4)
    start_and_take_back(example, claim(example), blamed=[jobs[0], jobs[2]])
    assert [example.job(job_id)["crashes"] for job_id in jobs] == [1, 0, 1, 0]
    batches = [[claimed.job_id for claimed in claim(example)] for _ in range(3)]
    assert sorted(batches) == sorted([[jobs[0]], [jobs[2]], [jobs[1], jobs[3]]])


def test_repaired_ticket_keeps_the_order_to_run_alone(example: ExampleInstallation) -> None:
    first, _ = put(example, "ok", "ok")
    start_and_take_back(example, claim(example), blamed=[first])
    example.rows("DELETE FROM turno.tickets WHERE job_id = %s", first)
    example.engine.repair(example.one.schema, "pool")
    assert [len(claim(example)), len(claim(example))] == [1, 1]
