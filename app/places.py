"""One tenant's requests have at most a share of a process's threads, so that everybody else finds one."""

from collections import Counter
from collections.abc import Callable
from threading import Lock

# Where a WSGI request finds the places of its process, on a server whose requests share threads.
PLACES = "turno.places"
# Where it leaves the number of the tenant that had none left: the server may ask again, nothing was done.
WANTED = "turno.wanted"


class Places:
    """Counts the requests that are being worked on, by tenant; safe to share between threads.

    `freed` is told of each tenant's place that is free again.
    """

    def __init__(self, most: int, freed: Callable[[int], None] = lambda _tenant: None) -> None:
        self.freed = freed
        self._most = most
        self._taken: Counter[int] = Counter()
        self._lock = Lock()

    def take(self, tenant: int) -> bool:
        """Take one of a tenant's places, or return False if there is none."""
        with self._lock:
            if self._taken[tenant] >= self._most:
                return False
            self._taken[tenant] += 1
            return True

    def give_back(self, tenant: int) -> None:
        """Let another request of the tenant have the place."""
        with self._lock:
            self._taken -= Counter((tenant,))
        self.freed(tenant)

    def free(self, tenant: int) -> bool:
        """Say whether a request of this tenant would find a place now."""
        return self._taken[tenant] < self._most
