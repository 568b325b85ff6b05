"""Shares of a process's threads: a tenant may use half of those that the others leave, so another tenant finds one."""

from collections import Counter
from collections.abc import Callable
from threading import Lock

# Set by a server whose event loop iterates asynchronous bodies: they occupy no thread.
EVENT_LOOP = "turno.event_loop"
# Where a WSGI request finds the places of its process, on a server whose requests share threads.
PLACES = "turno.places"
# Where it leaves the number of the tenant that had none left: the server may ask again, nothing was done.
WANTED = "turno.wanted"


class ThreadShares:
    """Counts the requests that are being worked on, by tenant; safe to share between threads.

    With 16 threads, the first tenant may have 8, the next then 4, 2, 1. `freed` is called when a place is free again.
    """

    def __init__(self, threads: int, freed: Callable[[], None] = lambda: None) -> None:
        self.freed = freed
        self._threads = threads
        self._taken: Counter[int] = Counter()
        self._lock = Lock()

    def take(self, tenant: int) -> bool:
        """Take one of a tenant's places, or return False if there is none."""
        with self._lock:
            if not self.free(tenant):
                return False
            self._taken[tenant] += 1
            return True

    def give_back(self, tenant: int) -> None:
        """Return a place, so that another request may take it."""
        with self._lock:
            self._taken -= Counter((tenant,))
        self.freed()

    def free(self, tenant: int) -> bool:
        """Say whether a request of this tenant would find a place now."""
        own = self._taken[tenant]
        left = self._threads - (self._taken.total() - own)
        return own < max(1, left // 2)
