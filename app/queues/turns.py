"""Which priority is next when several wait: the better more often, and none never."""

from collections.abc import Collection, Mapping
from fractions import Fraction

from app.jobs.job import Priority

WEIGHTS = {Priority.URGENT: 12, Priority.NORMAL: 4, Priority.LOW: 1}


class Turns:
    """Stride scheduling: each turn moves a band on by the inverse of its weight, and the one furthest back is next."""

    def __init__(self, weights: Mapping[Priority, int] = WEIGHTS) -> None:
        self._strides = {band: Fraction(1, weight) for band, weight in weights.items()}
        self._reached = dict.fromkeys(weights, Fraction(0))
        self._now = Fraction(0)

    def pick(self, waiting: Collection[Priority]) -> Priority:
        """Choose one of the bands in which something waits."""
        # A band that was empty for a while has saved up nothing.
        reached = {band: max(self._reached[band], self._now) for band in waiting}
        band = min(reached, key=lambda band: (reached[band], band))
        self._now = reached[band]
        self._reached[band] = reached[band] + self._strides[band]
        return band
