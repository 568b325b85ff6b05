"""Waiting for a child, the children in reserve, and the dismissal of idle children."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import count
from time import monotonic
from typing import cast
from uuid import uuid4

import pytest

from turno.jobs.job import Batch, Claim
from turno.tenancy.identity.tenant import HandlerLogin
from turno.worker.child import LONG_SECONDS, Child
from turno.worker.child_pool import ChildPool, FreeSlots, PoolSize

SIZE = PoolSize(minimum=0, maximum=2, reserve=1)
PIDS = count(1)


@dataclass
class FakeChild:
    """The interface of a child."""

    claims: Batch = ()
    since: float = 0.0
    long_from: float = 0.0
    leaving: bool = False
    pid: int = field(default_factory=PIDS.__next__)

    @property
    def idle(self) -> bool:
        return not self.claims and not self.leaving

    def dismiss(self) -> None:
        self.leaving = True


def at(slug: str, *, seconds: float = 10.0) -> FakeChild:
    login = HandlerLogin(slug=slug, schema="t_0123456789ab", role="r", epoch=0)
    claim = Claim(job_id=uuid4(), token=uuid4(), attempt=1, type="faulty", version=1, tenant_id=1, login=login)
    return FakeChild((claim,), long_from=monotonic() - seconds + LONG_SECONDS)


def pool(*children: FakeChild, size: PoolSize = SIZE, idle_after: float = 60.0) -> ChildPool:
    """A pool that has forked these children."""
    waiting = iter(cast("tuple[Child, ...]", children))
    pool = ChildPool(start=waiting.__next__, size=replace(size, minimum=len(children)), idle_after=idle_after)
    pool.fork_minimum()
    pool.size = size
    return pool


def test_new_job_has_all_free_children() -> None:
    assert [pool(*some).free for some in ((), (FakeChild(),), (at("a"), FakeChild()))] == [
        FreeSlots(2),
        FreeSlots(2),
        FreeSlots(1),
    ]


def test_long_jobs_in_all_children_leave_room() -> None:
    assert pool(at("a"), at("a")).free == FreeSlots(1, frozenset({"a"}))
    assert pool(at("a"), at("b"), FakeChild()).free == FreeSlots(1, frozenset({"a", "b"}))


def test_a_short_job_is_worth_waiting_for() -> None:
    busy = pool(at("a"), at("a", seconds=0.0))
    assert busy.free == FreeSlots(0)
    assert 0 < busy.reserve_opens_at - monotonic() <= LONG_SECONDS


def test_the_reserve_is_bounded() -> None:
    full = at("a"), at("a"), at("b")
    assert (pool(*full).free, pool(*full).reserve_opens_at) == (FreeSlots(0), math.inf)
    assert pool(*full, size=replace(SIZE, reserve=2)).free == FreeSlots(1, frozenset({"a", "b"}))
    assert pool(*full[:2], size=replace(SIZE, reserve=0)).free == FreeSlots(0)


def test_surplus_over_maximum_is_balanced_by_next_free_child() -> None:
    assert pool(at("a"), FakeChild(), at("b")).free == FreeSlots(1, frozenset({"a", "b"}))


def test_an_idle_child_is_used_before_another_is_forked() -> None:
    idle, new = FakeChild(), FakeChild()
    children = pool(at("a"), idle)
    children.start = lambda: cast("Child", new)
    assert children.idle_child() is cast("Child", idle)
    idle.dismiss()
    assert children.idle_child() is cast("Child", new)
    assert new.pid in children.pids


def test_that_no_process_can_be_had_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    def refuse() -> Child:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    empty = ChildPool(start=refuse, size=replace(SIZE, minimum=1), idle_after=60.0)
    empty.fork_minimum()
    assert "no child could be started" in caplog.text
    assert not empty
    with pytest.raises(OSError, match="temporarily"):
        empty.idle_child()


def test_the_minimum_is_kept_however_long_they_idle() -> None:
    children = FakeChild(), FakeChild(), FakeChild()
    kept = pool(*children, size=replace(SIZE, minimum=3), idle_after=0.0)
    assert kept.dismissal_due == math.inf
    kept.dismiss_spare()
    assert not any(child.leaving for child in children)


def test_spare_child_is_dismissed_without_replacement() -> None:
    children = FakeChild(), FakeChild(), FakeChild()
    kept = pool(*children, size=replace(SIZE, minimum=2), idle_after=0.0)
    assert kept.dismissal_due < math.inf
    for _ in range(2):
        kept.dismiss_spare()
        assert sum(child.leaving for child in children) == 1
        assert kept.dismissal_due == math.inf


def test_child_is_not_dismissed_before_its_time() -> None:
    children = FakeChild(since=monotonic()), FakeChild(since=monotonic())
    pool(*children, size=replace(SIZE, minimum=1)).dismiss_spare()
    assert not any(child.leaving for child in children)
