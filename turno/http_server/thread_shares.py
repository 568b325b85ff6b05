"""Shares of a process's threads: by the number of a tenant's requests, and by their processor time."""

from collections import Counter
from collections.abc import Callable
from threading import Lock
from time import monotonic

# Set by a server with an event loop for asynchronous bodies, which then occupy no thread.
EVENT_LOOP = "turno.event_loop"
# Key of the process's ThreadShares in the WSGI environment, on a server that shares threads between requests.
PLACES = "turno.places"
# Where it leaves the number of the tenant that had none left: the server may ask again, nothing was done.
WANTED = "turno.wanted"
# Seconds of processor time that the requests of one tenant may need side by side while other tenants send requests: the
# threads compute one after another, so each of them would delay the requests of the others by its whole time.
SIDE_BY_SIDE = 0.008
RECENTLY = 2.0  # seconds since the last request of another tenant
NEWEST = 0.2  # weight of a request in the average of its tenant


class ThreadShares:
    """Counts the requests that are being worked on, by tenant; safe to share between threads.

    Each tenant may use half of the threads that other tenants leave free: with 16 threads, the first tenant may have 8,
    the next then 4, 2, 1. While other tenants are active, expensive requests of a tenant have fewer threads, at least
    one. `freed` is called when a place is free again.
    """

    def __init__(
        self, threads: int, freed: Callable[[], None] = lambda: None, clock: Callable[[], float] = monotonic
    ) -> None:
        self.freed = freed
        self._threads = threads
        self._clock = clock
        self._taken: Counter[int] = Counter()
        self._average: dict[int, float] = {}  # seconds of processor time of a tenant's request
        # The tenant of the newest request, the newest one of any other tenant, and when they began.
        self._newest, self._other = (0, -RECENTLY), (0, -RECENTLY)
        self._lock = Lock()

    def take(self, tenant: int) -> bool:
        """Take a place of a tenant, or return False if no place is free."""
        with self._lock:
            if self._newest[0] != tenant:
                self._other = self._newest
            self._newest = tenant, self._clock()
            if not self.free(tenant):
                return False
            self._taken[tenant] += 1
            return True

    def give_back(self, tenant: int, seconds: float) -> None:
        """Return the place of a request that needed so much processor time, so that another request may take it."""
        with self._lock:
            self._taken -= Counter((tenant,))
            average = self._average.get(tenant, seconds)
            self._average[tenant] = average + NEWEST * (seconds - average)
        self.freed()

    def free(self, tenant: int) -> bool:
        """Say whether a request of this tenant would find a place now."""
        own = self._taken[tenant]
        left = self._threads - (self._taken.total() - own)
        most = left // 2
        _, since = self._other if self._newest[0] == tenant else self._newest
        if self._clock() - since < RECENTLY:
            most = min(most, int(SIDE_BY_SIDE / max(self._average.get(tenant, 0.0), 1e-6)))
        return own < max(1, most)
