"""Batches that were claimed and that no child has: one of ours takes them within a moment, or another worker."""

import math
from collections import deque
from time import monotonic
from uuid import UUID

from turno.jobs.claim import Batch

KEPT = 0.05  # seconds for which a batch waits for a child of ours


class WaitingBatches:
    """Hands them out in the order in which they came."""

    def __init__(self) -> None:
        self._batches: deque[tuple[float, Batch]] = deque()

    def __bool__(self) -> bool:
        """Say whether there is any."""
        return bool(self._batches)

    def add(self, batch: Batch) -> None:
        """Keep a batch, if there is anything in it."""
        if batch:
            self._batches.append((monotonic(), batch))

    def take(self) -> Batch:
        """Return the oldest, which is kept no longer."""
        _, batch = self._batches.popleft()
        return batch

    @property
    def give_up_at(self) -> float:
        """The moment at which the oldest goes back, so that another worker may find it; infinite if there is none."""
        return self._batches[0][0] + KEPT if self._batches else math.inf

    @property
    def tokens(self) -> set[UUID]:
        """Return the tokens of all claims that are kept."""
        return {claim.token for _, batch in self._batches for claim in batch}
