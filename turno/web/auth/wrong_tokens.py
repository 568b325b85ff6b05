"""Limit the tokens with a wrong signature that one address may send in a minute."""

import logging
import time
from collections import Counter
from collections.abc import Callable
from threading import Lock

log = logging.getLogger(__name__)

WINDOW_SECONDS = 60.0  # seconds
MAX_ADDRESSES = 10_000  # that are told apart within a window
OTHERS = "other addresses"


class WrongTokens:
    """Counts wrong tokens by address within this process; `most` a minute are answered with 401, further ones with 429.

    Only wrong tokens are ever refused for it: behind one address there may be others, whose tokens are right.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._lock = Lock()
        self._seen: Counter[str] = Counter()
        self._over_at = 0.0

    def count(self, address: str) -> float | None:
        """Count one; if there were too many of that address, return in how many seconds it may send another."""
        if not self._most:
            return None
        with self._lock:
            now = self._clock()
            if now >= self._over_at:
                self._seen.clear()
                self._over_at = now + WINDOW_SECONDS
            if address not in self._seen and len(self._seen) >= MAX_ADDRESSES:
                address = OTHERS
            self._seen[address] += 1
            seen, left = self._seen[address], self._over_at - now
        if seen <= self._most:
            return None
        if seen == self._most + 1:
            log.warning("more than %s wrong tokens a minute from %s", self._most, address, extra={"alert": "tokens"})
        return left
