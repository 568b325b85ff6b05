"""Batches go to children that live."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from tests.unit.worker.test_child import Scene, a_batch
from turno.jobs.job import Batch
from turno.worker.child_pool import ChildPool, PoolSize
from turno.worker.distributor import Distributor


class Claims:
    """A source with one batch, a rescuer without claims, and an engine that is reachable."""

    claims_at = again_at = 0.0

    def __init__(self, batch: Batch) -> None:
        self._batches = [batch]

    def take(self, *_: object) -> list[Batch]:
        batches, self._batches = self._batches, []
        return batches

    def pause(self) -> None:
        pass

    def pass_over(self, batches: list[Batch]) -> list[Batch]:
        return batches


def test_batch_of_a_child_killed_while_idle_goes_to_another() -> None:
    killed, other = Scene(), Scene()
    scenes = [killed, other]
    size = PoolSize(minimum=1, maximum=2, reserve=0)
    children = ChildPool(start=lambda: scenes.pop(0).child, size=size, idle_after=60)
    children.fork_minimum()
    batch = a_batch()
    claims: Any = Claims(batch)
    shutdown: Any = SimpleNamespace(requested=False)
    distributor = Distributor(engine=claims, source=claims, children=children, rescuer=claims, shutdown=shutdown)
    killed.theirs.close()
    distributor.distribute(uuid4())
    assert (killed.child.idle, killed.child.claims, distributor.tokens) == (False, (), {claim.token for claim in batch})
    distributor.distribute(uuid4())
    assert other.receives() == other.child.claims == batch
    assert killed.child.unfinished.begun == killed.child.unfinished.unbegun == ()
    for scene in (killed, other):
        scene.end()


def test_ended_child_is_sent_no_batch() -> None:
    scene = Scene()
    scene.theirs.close()
    with pytest.raises(ConnectionError):
        scene.child.assign(a_batch())
    assert not scene.child.idle
    scene.end()
