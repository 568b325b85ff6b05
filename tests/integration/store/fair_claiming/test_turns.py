"""Turns and weights: how tenants and bands share the claims."""

from collections import Counter

import pytest

from tests import claiming
from tests.installation import ExampleInstallation
from tests.integration.store.fair_claiming.work import KNOWN, claim, more_tenants, slugs, start, wait
from turno.store.operator.counts import worst_tenants
from turno.tenancy.identity.session import service_session


def test_a_weight_is_turns_per_lap(example: ExampleInstallation) -> None:
    example.rows("UPDATE turno.tenants SET weight = 3 WHERE slug = 'suc0002'")
    wait(example, 50)
    wait(example, 50, "suc0002")
    assert slugs(claim(example, 40)) == {"suc0001": 10, "suc0002": 30}


def test_a_tenant_that_is_left_out_has_no_turn(example: ExampleInstallation) -> None:
    example.rows("UPDATE turno.tenants SET weight = 3 WHERE slug = 'suc0002'")
    wait(example, 50, priority=0)
    wait(example, 50, "suc0002")
    assert slugs(claim(example, 40, without=("suc0001",))) == {"suc0002": 40}
    assert claim(example, 1, without=("suc0001", "suc0002")) == []
    assert 9 <= slugs(claim(example, 13))["suc0002"] <= 10


def test_cap_holds_beside_a_left_out_tenant(example: ExampleInstallation) -> None:
    example.rows("UPDATE turno.tenants SET cap = 2 WHERE slug = 'suc0002'")
    wait(example, 5)
    wait(example, 5, "suc0002")
    assert slugs(claim(example, 4, without=("suc0001",))) == {"suc0002": 2}


@pytest.mark.parametrize("slots", [1, 3])
def test_turns_go_on_from_claim_to_claim(example: ExampleInstallation, slots: int) -> None:
    example.rows("UPDATE turno.tenants SET weight = 3 WHERE slug = 'suc0002'")
    wait(example, 50)
    wait(example, 50, "suc0002")
    taken = [claimed for _ in range(24 // slots) for claimed in claim(example, slots)]
    # The first claim of a session may begin within a lap.
    assert 5 <= slugs(taken)["suc0001"] <= 7


def test_gap_in_tenant_numbers_favours_no_tenant(example: ExampleInstallation) -> None:
    *_, last = more_tenants(example, 200)
    for tenant in ("suc0001", "suc0002", last):
        wait(example, 30, tenant)
    taken = [claimed for _ in range(30) for claimed in claim(example)]
    assert slugs(taken) == {"suc0001": 10, "suc0002": 10, last: 10}


def test_two_types_and_two_queues_of_a_tenant_are_one_turn(example: ExampleInstallation) -> None:
    for kind in ("a", "b"):
        wait(example, 20, type=kind)
        wait(example, 20, type=kind, queue="cold")
    wait(example, 40, "suc0002", type="a")
    taken = claiming.claim(
        example.engine, start(example), queues=["hot", "cold"], types=[("a", 1), ("b", 1)], backend="exec", slots=20
    )
    assert slugs(taken) == {"suc0001": 10, "suc0002": 10}


def test_urgent_jobs_of_a_tenant_delay_no_tenant(example: ExampleInstallation) -> None:
    wait(example, 300, priority=0)
    wait(example, 10, "suc0002", priority=2, age=0)
    assert slugs(claim(example, 20))["suc0002"] == 10


def test_urgent_stream_starves_no_other_band_or_type(example: ExampleInstallation) -> None:
    wait(example, 1, priority=2, age=3600)
    wait(example, 1, priority=1, age=3500, type="b")
    wait(example, 400, priority=0)
    order = [claimed for _ in range(100) for claimed in claim(example, 2, types=[*KNOWN, ("b", 1)])]
    priorities = {row["job_id"]: row["priority"] for row in example.rows("SELECT job_id, priority FROM turno.tickets")}
    taken = Counter(priorities[claimed.job_id] for claimed in order)
    assert taken == {0: 198, 1: 1, 2: 1}


def test_the_best_band_nevertheless_comes_first(example: ExampleInstallation) -> None:
    wait(example, 200, priority=2, age=3600)
    wait(example, 200, priority=0)
    order = [claimed for _ in range(200) for claimed in claim(example)]
    urgent = example.rows("SELECT count(*) FROM turno.tickets WHERE priority = 0 AND state = 'running'")
    assert 150 <= urgent[0]["count"] < len(order)


def test_old_and_new_code_run_side_by_side(example: ExampleInstallation) -> None:
    wait(example, 3)
    wait(example, 3, version=2)
    assert {claimed.version for claimed in claim(example, 10, types=[("work", 2)])} == {2}
    (old, *_) = example.rows("SELECT job_id FROM turno.tickets WHERE state = 'ready'")
    assert example.engine.claim_job(start(example), old["job_id"], types=[("work", 2)]) is None
    assert {claimed.version for claimed in claim(example, 10, types=[("work", 1), ("work", 2)])} == {1}


def test_operators_see_each_tenant_s_wait_and_share(example: ExampleInstallation) -> None:
    example.rows("UPDATE turno.tenants SET weight = 3 WHERE slug = 'suc0002'")
    wait(example, 4)
    example.rows(
        "INSERT INTO turno.outcome_batches (tenant_id, type, outcome, wait_ms, run_ms)"
        " SELECT id, 'work', 'completed', ARRAY[10 * i], ARRAY[100] FROM turno.tenants, generate_series(1, 10) AS i"
        " WHERE slug = 'suc0001' OR slug = 'suc0002' AND i = 1"
    )
    example.rows("SELECT turno.count_outcomes(100000)")
    with service_session(example.logins, example.logins.operator, application="test") as operator:
        rows = operator.execute(
            "SELECT tenant, waiting, running, oldest_wait > 59, ended, wait_p50_ms, wait_p95_ms,"
            " round(share::numeric, 2), round(fair_share::numeric, 2) FROM tenant_shares WHERE busy ORDER BY tenant"
        ).fetchall()
        seen = worst_tenants(operator)
    assert [(row["tenant"], row["wait_p95_ms"], round(row["share"], 3), row["fair_share"]) for row in seen] == [
        ("suc0001", 96, 0.909, 0.25),
        ("suc0002", 10, 0.091, 0.75),
    ]
    assert [tuple(map(str, row)) for row in rows] == [
        ("suc0001", "4", "0", "True", "10", "47", "96", "0.91", "0.25"),
        ("suc0002", "0", "0", "None", "1", "10", "10", "0.09", "0.75"),
    ]
