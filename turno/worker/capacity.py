"""How many claims a supervisor's children could take now, and of which tenants none."""

import math
from collections.abc import Mapping
from time import monotonic
from typing import NamedTuple

from turno.worker.child import Child
from turno.worker.timings import PoolSize


class FreeSlots(NamedTuple):
    """So many claims could be taken, of any tenant but these."""

    slots: int
    without: frozenset[str] = frozenset()


class Capacity:
    """Counts the children that are free, and opens the reserve when every other child is at a long job.

    A child in reserve takes a job only of a tenant that none of the others works for, so one tenant's long jobs never
    hold up another's; of short jobs one ends soon enough.
    """

    def __init__(self, children: Mapping[int, Child], size: PoolSize) -> None:
        """`children` are the supervisor's own, by pid: they come and go there."""
        self._children = children
        self._size = size

    @property
    def room(self) -> FreeSlots:
        """Return what could be claimed now."""
        busy = self._busy
        if len(busy) < self._size.most:
            return FreeSlots(self._size.most - len(busy))
        if monotonic() < self.reserve_opens_at:
            return FreeSlots(0)
        return FreeSlots(1, frozenset(claim.login.slug for child in busy for claim in child.claims))

    @property
    def reserve_opens_at(self) -> float:
        """The moment from which a child in reserve may take something, on the monotonic clock; infinite if none may."""
        busy = self._busy
        if not self._size.most <= len(busy) < self._size.most + self._size.reserve:
            return math.inf
        return max(child.long_from for child in busy)

    @property
    def _busy(self) -> list[Child]:
        return [child for child in self._children.values() if not child.idle]
