"""Shares of a process's threads: each tenant may use half of the threads that other tenants leave free."""

from collections import Counter
from collections.abc import Callable
from threading import Lock

# Set by a server with an event loop for asynchronous bodies, which then occupy no thread.
EVENT_LOOP = "turno.event_loop"
# Key of the process's ThreadShares in the WSGI environment, on a server that shares threads between requests.
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
        """Take a place of a tenant, or return False if no place is free."""
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
