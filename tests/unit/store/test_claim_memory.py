"""What a claimer remembers between two claims, and for how long it believes it."""

from __future__ import annotations

from typing import Any

import pytest

from turno.store.engine.claim_memory import NEAR, OLDEST_EVERY, ClaimMemory


def learned(*, marks: dict[str, Any] | None = None, empty: dict[str, Any] | None = None, closed: str = "") -> Any:
    return {"for": closed, "marks": marks, "empty": empty, "passed": None}


def marked(tenant: int, since: str = "2026-01-01") -> Any:
    return learned(marks={str(tenant): {"hot/1": since}})


def test_one_claim_in_eight_takes_the_oldest() -> None:
    memory = ClaimMemory()
    assert [memory.oldest_first() for _ in range(2 * OLDEST_EVERY)].count(True) == 2


def test_a_mark_that_goes_on_is_no_younger() -> None:
    memory = ClaimMemory()
    memory.learn(marked(7), now=100.0)
    memory.learn(marked(7, "2026-02-02"), now=119.0)
    assert memory.known(1, now=119.5) == {"": {"marks": {7: {"hot/1": "2026-02-02"}}}}
    assert memory.known(1, now=121.0) == {}


@pytest.mark.parametrize(("entries", "seconds"), [(10_000, 0.2), (10_000_000, 5.0)])
def test_that_nothing_waits_between_two_tenants_is_believed_as_long_as_it_cost(entries: int, seconds: float) -> None:
    memory = ClaimMemory()
    memory.learn(learned(empty={"3": [9, entries]}), now=100.0)
    assert memory.known(1, now=100.0 + 0.9 * seconds) == {"": {"empty": {3: 9}}}
    assert memory.known(1, now=100.0 + 1.1 * seconds) == {}


def test_who_finds_nothing_believes_only_what_is_fresh() -> None:
    memory = ClaimMemory()
    memory.learn(marked(7), now=100.0)
    memory.learn(marked(8), now=102.0)
    memory.found_nothing(now=102.5)
    assert memory.known(1, now=102.5) == {"": {"marks": {8: {"hot/1": "2026-01-01"}}}}


def test_what_was_learned_while_types_were_closed_is_said_only_for_them() -> None:
    memory = ClaimMemory()
    memory.learn(marked(7), now=100.0)
    memory.learn(learned(marks={"7": {"hot/1": "2026-03-03"}}, closed="work"), now=100.0)
    assert memory.known(1, now=100.0) == {
        "": {"marks": {7: {"hot/1": "2026-01-01"}}},
        "work": {"marks": {7: {"hot/1": "2026-03-03"}}},
    }


def test_a_claim_is_told_about_the_tenants_that_it_comes_to_first() -> None:
    memory = ClaimMemory()
    for tenant in range(1000):
        memory.learn(marked(tenant), now=100.0)
    memory.pass_over(989)
    told = list(memory.known(2, now=100.0)[""]["marks"])
    assert told == [*range(990, 1000), *range(NEAR + 8 - 10)]
