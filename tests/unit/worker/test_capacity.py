"""Who waits for a child: with all of them at long jobs, one in reserve takes another tenant's."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from time import monotonic
from typing import cast
from uuid import uuid4

from turno.jobs.claim import Batch, Claim
from turno.tenancy.identity.tenant import HandlerLogin
from turno.worker.capacity import Capacity, FreeSlots
from turno.worker.child import LONG, Child
from turno.worker.timings import PoolSize

SIZE = PoolSize(fewest=0, most=2, reserve=1)


@dataclass
class Busy:
    """What is asked of a child."""

    claims: Batch
    long_from: float
    idle: bool = False


def at(slug: str, *, seconds: float = 10.0) -> Busy:
    login = HandlerLogin(slug=slug, schema="t_0123456789ab", role="r", epoch=0)
    claim = Claim(job_id=uuid4(), token=uuid4(), attempt=1, type="odd", version=1, tenant_id=1, login=login)
    return Busy((claim,), monotonic() - seconds + LONG)


IDLE = Busy((), 0.0, idle=True)


def capacity(*children: Busy, size: PoolSize = SIZE) -> Capacity:
    return Capacity(cast("dict[int, Child]", dict(enumerate(children))), size)


def test_whoever_comes_has_the_children_that_are_free() -> None:
    assert [capacity(*some).room for some in ((), (IDLE,), (at("a"), IDLE))] == [
        FreeSlots(2),
        FreeSlots(2),
        FreeSlots(1),
    ]


def test_with_all_at_long_jobs_there_is_room_for_others() -> None:
    assert capacity(at("a"), at("a")).room == FreeSlots(1, frozenset({"a"}))
    assert capacity(at("a"), at("b"), IDLE).room == FreeSlots(1, frozenset({"a", "b"}))


def test_a_short_job_is_worth_waiting_for() -> None:
    busy = capacity(at("a"), at("a", seconds=0.0))
    assert busy.room == FreeSlots(0)
    assert 0 < busy.reserve_opens_at - monotonic() <= LONG


def test_the_reserve_is_bounded() -> None:
    full = at("a"), at("a"), at("b")
    assert (capacity(*full).room, capacity(*full).reserve_opens_at) == (FreeSlots(0), math.inf)
    assert capacity(*full, size=replace(SIZE, reserve=2)).room == FreeSlots(1, frozenset({"a", "b"}))
    assert capacity(*full[:2], size=replace(SIZE, reserve=0)).room == FreeSlots(0)


def test_whatever_is_beyond_the_most_children_is_made_up_for_by_the_next_that_is_free() -> None:
    assert capacity(at("a"), IDLE, at("b")).room == FreeSlots(1, frozenset({"a", "b"}))
