"""Children that have nothing to do, and how long those beyond the fewest are kept."""

import math
from collections.abc import Mapping
from time import monotonic

from turno.worker.child import Child


class IdleChildren:
    """Dismisses children that were idle for `patience` seconds, but for the `fewest` that stay."""

    def __init__(self, children: Mapping[int, Child], *, fewest: int, patience: float) -> None:
        """`children` are the supervisor's own, by pid: they come and go there."""
        self._children = children
        self._fewest = fewest
        self._patience = patience

    @property
    def idle(self) -> list[Child]:
        """Return who could take something."""
        return [child for child in self._children.values() if child.idle]

    @property
    def due(self) -> float:
        """The moment of the next dismissal, on the monotonic clock; infinite while nobody is to be dismissed."""
        return min((child.since + self._patience for child in self._spare), default=math.inf)

    def dismiss(self) -> None:
        """Let go who is spare for long enough."""
        for child in self._spare:
            if monotonic() >= child.since + self._patience:
                child.dismiss()

    @property
    def _spare(self) -> list[Child]:
        # Who was dismissed and has not gone yet is nobody in whose place another could go.
        staying = sum(not child.leaving for child in self._children.values())
        return self.idle[: max(0, staying - self._fewest)]
