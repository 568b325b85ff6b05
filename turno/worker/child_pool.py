"""The children of a supervisor: how many claims they could take, when one is forked and when one is dismissed."""

import logging
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import NamedTuple

from turno.worker.child import Child

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSize:
    """The number of children: `minimum` when idle, `maximum` under load.

    While all children run long jobs, up to `reserve` more children run jobs of other tenants.
    """

    minimum: int
    maximum: int
    reserve: int = 0


class FreeSlots(NamedTuple):
    """The number of claims that can be taken, and the excluded tenants."""

    slots: int
    without: frozenset[str] = frozenset()


@dataclass(kw_only=True, eq=False)
class ChildPool:
    """Keeps from `size.minimum` to `size.maximum` children, and opens the reserve when all of these run long jobs.

    A child in reserve takes only jobs of tenants for which no other child works: long jobs of a tenant never delay
    another tenant. A short job ends soon enough. `start` forks a child; a child beyond the minimum is dismissed when it
    was idle for `idle_after` seconds.
    """

    start: Callable[[], Child]
    size: PoolSize
    idle_after: float
    _children: dict[int, Child] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Child]:
        return iter(list(self._children.values()))

    def __bool__(self) -> bool:
        return bool(self._children)

    @property
    def pids(self) -> set[int]:
        """Return the children's processes."""
        return set(self._children)

    # Free children ---------------------------------------------------------------------------------

    @property
    def free(self) -> FreeSlots:
        """Return the number of claims that can be taken now."""
        busy = self._busy
        if len(busy) < self.size.maximum:
            return FreeSlots(self.size.maximum - len(busy))
        if monotonic() < self.reserve_opens_at:
            return FreeSlots(0)
        return FreeSlots(1, frozenset(claim.login.slug for child in busy for claim in child.claims))

    @property
    def reserve_opens_at(self) -> float:
        """The moment from which a child in reserve may take something, on the monotonic clock; infinite if none may."""
        busy = self._busy
        if not self.size.maximum <= len(busy) < self.size.maximum + self.size.reserve:
            return math.inf
        return max(child.long_from for child in busy)

    def idle_child(self) -> Child:
        """Return an idle child, or a new child; raises OSError if the system refuses a process."""
        return next(iter(self._idle), None) or self._fork()

    # Start and end of children ---------------------------------------------------------------------

    def fork_minimum(self) -> None:
        """Fork the children that are kept ready; where no process can be had, the next call tries again."""
        while len(self._children) < self.size.minimum:
            try:
                self._fork()
            except OSError as error:
                log.warning("no child could be started: %s", error)
                return

    @property
    def dismissal_due(self) -> float:
        """The moment of the next dismissal, on the monotonic clock; infinite while no child is to be dismissed."""
        return min((child.since + self.idle_after for child in self._spare), default=math.inf)

    def dismiss_spare(self) -> None:
        """Dismiss the children beyond the minimum that were idle for long."""
        for child in self._spare:
            if monotonic() >= child.since + self.idle_after:
                child.dismiss()

    def dismiss_idle(self) -> None:
        """Dismiss all that have nothing to do."""
        for child in self._idle:
            child.dismiss()

    def remove(self, child: Child) -> None:
        """Forget a child that has ended."""
        del self._children[child.pid]

    def _fork(self) -> Child:
        child = self.start()
        self._children[child.pid] = child
        return child

    @property
    def _idle(self) -> list[Child]:
        return [child for child in self if child.idle]

    @property
    def _busy(self) -> list[Child]:
        return [child for child in self if not child.idle]

    @property
    def _spare(self) -> list[Child]:
        # In the place of a child that was dismissed and has not ended yet, no other can be dismissed.
        staying = sum(not child.leaving for child in self)
        return self._idle[: max(0, staying - self.size.minimum)]
