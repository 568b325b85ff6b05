"""Wait for a condition, with a time limit."""

import os
import time
from collections.abc import Callable

MOST_CROWDED = 4.0


def crowding() -> float:
    """Return how many processes share a processor of this machine, from 1 to 4; each runs that many times longer."""
    return min(max(os.getloadavg()[0] / (os.cpu_count() or 1), 1.0), MOST_CROWDED)


def wait_until(
    condition: Callable[[], bool], *, within: float, every: float = 0.02, crowded: Callable[[], float] = crowding
) -> bool:
    """Return whether `condition` holds before `within` seconds of a machine at rest have passed."""
    began = time.monotonic()
    while not condition():
        passed = time.monotonic() - began
        if passed > within and passed > within * crowded():
            return False
        time.sleep(every)
    return True
