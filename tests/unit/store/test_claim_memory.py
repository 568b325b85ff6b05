"""A claimer's memory between two claims, and its lifetime."""

from __future__ import annotations

from typing import Any

import pytest

from turno.store.engine.claims import NEAR, OLDEST_EVERY, ClaimMemory


def lanes(tenant: int, head: str = "2026-01-01") -> list[dict[str, Any]]:
    return [{"tenant_id": tenant, "queue": "hot", "priority": 1, "head": head}]


def test_one_claim_in_eight_takes_the_oldest() -> None:
    memory = ClaimMemory()
    assert [memory.oldest_first() for _ in range(2 * OLDEST_EVERY)].count(True) == 2


def test_lanes_learned_again_do_not_stay_valid_longer() -> None:
    memory = ClaimMemory()
    memory.learn_lanes("", lanes(7), now=100.0)
    memory.learn_lanes("", lanes(7, "2026-02-02"), now=119.0)
    assert memory.known(1, now=119.5) == {"": {"lanes": lanes(7, "2026-02-02")}}
    assert memory.known(1, now=121.0) == {}


@pytest.mark.parametrize(("entries", "seconds"), [(10_000, 0.2), (10_000_000, 5.0)])
def test_a_gap_is_valid_as_long_as_its_entries_cost(entries: int, seconds: float) -> None:
    memory = ClaimMemory()
    gap = {"since": 3, "until": 9}
    memory.learn_gap("", gap, entries, now=100.0)
    assert memory.known(1, now=100.0 + 0.9 * seconds) == {"": {"gaps": [gap]}}
    assert memory.known(1, now=100.0 + 1.1 * seconds) == {}


def test_an_empty_claim_forgets_gaps_and_keeps_lanes() -> None:
    memory = ClaimMemory()
    memory.learn_lanes("", lanes(7), now=100.0)
    memory.learn_gap("", {"since": 8, "until": 9}, 10_000_000, now=100.0)
    memory.drop_gaps()
    assert memory.known(1, now=100.0) == {"": {"lanes": lanes(7)}}


def test_hints_are_kept_apart_for_each_set_of_closed_types() -> None:
    memory = ClaimMemory()
    memory.learn_lanes("", lanes(7), now=100.0)
    memory.learn_lanes("work", lanes(7, "2026-03-03"), now=100.0)
    assert memory.known(1, now=100.0) == {"": {"lanes": lanes(7)}, "work": {"lanes": lanes(7, "2026-03-03")}}


def test_claim_hints_name_the_first_reached_tenants() -> None:
    memory = ClaimMemory()
    for tenant in range(1000):
        memory.learn_lanes("", lanes(tenant), now=100.0)
    memory.tenant = 990
    known = [lane["tenant_id"] for lane in memory.known(2, now=100.0)[""]["lanes"]]
    assert known == [*range(990, 1000), *range(NEAR + 8 - 10)]
