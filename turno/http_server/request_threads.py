"""The threads that handle complete requests, in shares of the tenants: by their number, and by processor time."""

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from time import monotonic
from typing import Any, TypeVar

# Key of the process's ThreadShares in the WSGI environment, on a server that shares threads between requests and whose
# event loop iterates asynchronous bodies, which then occupy no thread.
THREAD_SHARES = "turno.thread_shares"
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
    one. `freed` is called when a thread is free again.
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
        """Take a thread for a tenant, or return False if its share has none free."""
        with self._lock:
            if self._newest[0] != tenant:
                self._other = self._newest
            self._newest = tenant, self._clock()
            if not self.free(tenant):
                return False
            self._taken[tenant] += 1
            return True

    def give_back(self, tenant: int, seconds: float) -> None:
        """Return the thread of a request that needed so much processor time, so that another request may take it."""
        with self._lock:
            self._taken -= Counter((tenant,))
            average = self._average.get(tenant, seconds)
            self._average[tenant] = average + NEWEST * (seconds - average)
        self.freed()

    def free(self, tenant: int) -> bool:
        """Say whether a request of this tenant would get a thread now."""
        own = self._taken[tenant]
        left = self._threads - (self._taken.total() - own)
        most = left // 2
        _, since = self._other if self._newest[0] == tenant else self._newest
        if self._clock() - since < RECENTLY:
            most = min(most, int(SIDE_BY_SIDE / max(self._average.get(tenant, 0.0), 1e-6)))
        return own < max(1, most)


SHARE_WAIT_SECONDS = 2.0  # seconds a request waits until its tenant has a free thread
MAX_WAITING_REQUESTS = 100  # requests of one tenant that wait for that
Response = TypeVar("Response")


class RequestThreads:
    """Handles requests of a WSGI application; a request waits while its tenant has no free thread."""

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="request")
        self._shares = ThreadShares(threads, freed=self._thread_freed)
        self._waiting: defaultdict[int, deque[asyncio.Future[None]]] = defaultdict(deque)
        self._loop: asyncio.AbstractEventLoop | None = None

    async def respond(self, handle: Callable[[dict[str, Any]], Response], environ: dict[str, Any]) -> Response:
        """Have a thread handle a request, again when its tenant has a free thread if it had none, for some seconds."""
        environ[THREAD_SHARES] = self._shares
        self._loop = asyncio.get_running_loop()
        until = self._loop.time() + SHARE_WAIT_SECONDS
        while True:
            attempt = environ.copy()
            response = await self.run(partial(handle, attempt))
            tenant = attempt.get(WANTED)
            if tenant is None or not await self._wait_for_share(tenant, until):
                return response
            environ["wsgi.input"].seek(0)

    async def _wait_for_share(self, tenant: int, until: float) -> bool:
        """Wait until the tenant may have a thread; return False if too many wait or the time is over."""
        line = self._waiting[tenant]
        turn = asyncio.get_running_loop().create_future()
        try:
            if len(line) < MAX_WAITING_REQUESTS:
                line.append(turn)
                self._wake()  # a thread that was free before this request waited woke no request
                async with asyncio.timeout_at(until):
                    await turn
                return True
        except TimeoutError:
            pass
        finally:
            if turn in line:
                line.remove(turn)
            if not line:
                self._waiting.pop(tenant, None)
        return False

    def _thread_freed(self) -> None:
        if self._waiting and self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for tenant, line in self._waiting.items():
            turn = next((turn for turn in line if not turn.done()), None)
            if turn is not None and self._shares.free(tenant):
                turn.set_result(None)

    async def run(self, work: Callable[[], Response]) -> Response:
        """Have a thread do some work."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)
