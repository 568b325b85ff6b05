"""Wait for a condition, with a time limit."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], *, within: float, every: float = 0.02) -> bool:
    """Return whether `condition` holds before `within` seconds have passed."""
    end = time.monotonic() + within
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(every)
    return True
