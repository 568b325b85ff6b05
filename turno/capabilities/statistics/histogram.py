"""The buckets of waits and run times."""

from collections.abc import Mapping
from itertools import accumulate

# The same as outcome_bounds() of the control schema; bucket n holds times above BOUNDS_MS[n - 1] up to BOUNDS_MS[n].
# The bucket after the last has no bound.
BOUNDS_MS = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000),
    *(600_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, 86_400_000),
)


def cumulative(counts: Mapping[int, int]) -> list[int]:
    """Return the number of times up to each of BOUNDS_MS, and last the number of all."""
    return list(accumulate(counts.get(bucket, 0) for bucket in range(len(BOUNDS_MS) + 1)))
