"""A queue that loses some hints on the way to the workers of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

    from turno.jobs.job import JobRef
    from turno.queues.interface import QueueInterface

LOST = 0.3  # of all hints, as if the sender had died between the commit and the hint


class LossyQueue:
    """Forwards most hints; implements QueueInterface."""

    def __init__(self, queue: QueueInterface, chance: Random, *, lost: float = LOST) -> None:
        self._queue = queue
        self._lost = lost
        self._chance = chance
        self.name = queue.name
        self.useful = queue.useful

    def offer(self, ref: JobRef) -> bool:
        """Lose or forward the hint."""
        return self._chance.random() < self._lost or self._queue.offer(ref)

    def close(self) -> None:
        """Close the wrapped queue."""
        self._queue.close()
