"""Sample contestants side by side, and summarise the samples in a few numbers."""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    # One turn of a contestant: its samples, in milliseconds.
    Contestant = Callable[[], Sequence[float]]

BLOCKS = 10
QUIET = 0.1


@dataclass(frozen=True, slots=True)
class Figure:
    """The samples of a contestant: its middle, its slow end and how far it strays, in one unit."""

    n: int
    p10: float
    median: float
    p99: float
    low: float
    high: float
    iqr: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Figure:
        """Return the figure of these samples; at least one."""
        quarters = [quantile(samples, share) for share in (0.25, 0.75)]
        return cls(
            n=len(samples),
            p10=quantile(samples, QUIET),
            median=statistics.median(samples),
            p99=quantile(samples, 0.99),
            low=min(samples),
            high=max(samples),
            iqr=quarters[1] - quarters[0],
        )


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times a floor something costs, and between which bounds that moved during the run.

    Others on the machine slow both by about the same time, which flatters the ratio of the medians; `quiet` is the
    ratio of the fastest tenths, which met no other work.
    """

    median: float
    low: float
    high: float
    quiet: float

    @classmethod
    def of(cls, samples: Sequence[float], floor: Sequence[float], *, blocks: int = BLOCKS) -> Ratio:
        """Return the ratio of the medians, block of neighbours by block: a load on both cancels out."""
        blocks = min(blocks, len(samples), len(floor))
        pairs = zip(divided(samples, blocks), divided(floor, blocks), strict=True)
        ratios = [statistics.median(ours) / statistics.median(theirs) for ours, theirs in pairs]
        quiet = quantile(samples, QUIET) / quantile(floor, QUIET)
        return cls(statistics.median(ratios), min(ratios), max(ratios), quiet)


def quantile(samples: Sequence[float], share: float) -> float:
    """Return the smallest sample that at least `share` of them do not exceed."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def divided(samples: Sequence[float], blocks: int) -> list[Sequence[float]]:
    """Divide the samples into `n` runs of neighbours, or one run per sample if there are fewer."""
    blocks = min(blocks, len(samples))
    cuts = [round(len(samples) * block / blocks) for block in range(blocks + 1)]
    return [samples[start:end] for start, end in pairwise(cuts)]


def interleaved(
    contestants: Mapping[str, Contestant], *, rounds: int, warm_up: int = 1, seconds: float = math.inf
) -> dict[str, list[float]]:
    """Give each contestant its turn, round after round; the samples of the first rounds do not count.

    On a busy machine the last round is the round in which `seconds` have passed.
    """
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    end = time.monotonic() + seconds
    for round_number in range(-warm_up, rounds):
        if round_number > 0 and time.monotonic() > end:
            break
        for name, turn in contestants.items():
            took = turn()
            if round_number >= 0:
                samples[name] += took
    return samples


def timed(work: Callable[[], object], *, times: int = 1) -> Contestant:
    """Return a contestant whose turn repeats `work` `n` times."""
    return lambda: [milliseconds(work) for _ in range(times)]


def milliseconds(work: Callable[[], object]) -> float:
    """Do `work` and return how long it took."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000
