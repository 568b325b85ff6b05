"""Turns that a child was given and did not come to: another child's for a moment, then another worker's."""

import math
from collections import deque
from time import monotonic
from uuid import UUID

from turno.jobs.claim import Assignment

HELD = 1.0  # seconds for which what a child has not begun waits for another of ours: about what others' polling takes


class UnstartedAssignments:
    """Keeps such turns in the order in which they were taken from their children."""

    def __init__(self) -> None:
        self._turns: deque[tuple[float, Assignment]] = deque()

    def __bool__(self) -> bool:
        """Say whether there is any."""
        return bool(self._turns)

    def add(self, turn: Assignment) -> None:
        """Keep a turn, if there is anything in it."""
        if turn:
            self._turns.append((monotonic(), turn))

    def take(self) -> Assignment:
        """Return the oldest, which is kept no longer."""
        _, turn = self._turns.popleft()
        return turn

    @property
    def give_up_at(self) -> float:
        """The moment at which the oldest goes back, so that another worker may find it; infinite if there is none."""
        return self._turns[0][0] + HELD if self._turns else math.inf

    @property
    def tokens(self) -> set[UUID]:
        """Return the tokens of all claims that are kept."""
        return {claim.token for _, turn in self._turns for claims in turn for claim in claims}
