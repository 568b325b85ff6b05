"""The threads that handle complete requests, in shares of the tenants."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from turno.http_server.thread_shares import PLACES, WANTED, ThreadShares
from turno.http_server.wsgi import WsgiApp, WsgiResponse

PLACE_WAIT_SECONDS = 2.0  # seconds a request waits until its tenant has a place
MAX_WAITING_REQUESTS = 100  # requests of one tenant that wait for that


class RequestThreads:
    """Handles the requests of a WSGI application; a request waits while its tenant has no free place."""

    def __init__(self, wsgi_app: WsgiApp, threads: int) -> None:
        self._wsgi_app = wsgi_app
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="request")
        self._places = ThreadShares(threads, freed=self._place_is_free)
        self._waiting: defaultdict[int, deque[asyncio.Future[None]]] = defaultdict(deque)
        self._loop: asyncio.AbstractEventLoop | None = None

    async def respond(self, environ: dict[str, Any]) -> WsgiResponse:
        """Have a thread handle a request, again when its tenant has a place if it had none, for some seconds."""
        environ[PLACES] = self._places
        self._loop = asyncio.get_running_loop()
        until = self._loop.time() + PLACE_WAIT_SECONDS
        while True:
            attempt = environ.copy()
            response: WsgiResponse = await self.run(partial(WsgiResponse, self._wsgi_app, attempt))
            tenant = attempt.get(WANTED)
            if tenant is None or not await self._has_place(tenant, until):
                return response
            environ["wsgi.input"].seek(0)

    async def _has_place(self, tenant: int, until: float) -> bool:
        """Wait until the tenant may have a place; False if too many wait or the time is over."""
        line = self._waiting[tenant]
        place = asyncio.get_running_loop().create_future()
        try:
            if len(line) < MAX_WAITING_REQUESTS:
                line.append(place)
                self._wake()  # a place that was free before this request waited woke no request
                async with asyncio.timeout_at(until):
                    await place
                return True
        except TimeoutError:
            pass
        finally:
            if place in line:
                line.remove(place)
            if not line:
                self._waiting.pop(tenant, None)
        return False

    def _place_is_free(self) -> None:
        if self._waiting and self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for tenant, line in self._waiting.items():
            place = next((place for place in line if not place.done()), None)
            if place is not None and self._places.free(tenant):
                place.set_result(None)

    async def run(self, work: Callable[[], Any]) -> Any:
        """Have a thread do some work."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)
