"""How the workers of a run hear of jobs: as the product does it, but some hints are lost on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turno.wiring import shared

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from turno.jobs.job import JobRef
    from turno.queues.exec.launcher import ExecQueue
    from turno.queues.interface import QueueInterface
    from turno.settings import Settings

LOST = 0.3  # of all hints: whoever should have sent them died between the commit and the hint


class LossyQueue:
    """Passes most hints on; implements QueueInterface."""

    def __init__(self, queue: QueueInterface, chance: Random, *, lost: float = LOST) -> None:
        self._queue = queue
        self._lost = lost
        self._chance = chance
        self.name = queue.name
        self.useful = queue.useful

    def offer(self, ref: JobRef) -> bool:
        """Lose the hint, or pass it on."""
        return self._chance.random() < self._lost or self._queue.offer(ref)

    def close(self) -> None:
        """Close the queue behind."""
        self._queue.close()


def exec_queue(settings: Settings, environment: Mapping[str, str]) -> ExecQueue:
    """Return what launches a worker that knows the run's handlers, with this environment."""
    return shared.exec_queue(settings, environment)
