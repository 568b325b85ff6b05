"""The response of a stream: a thread iterates it under any WSGI server, the event loop where the server has one."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from flask import Response, g, request

from turno.capabilities.streams.stream_events import RETRY, close_event
from turno.capabilities.streams.subscriber import CloseReason, Subscriber
from turno.http_server.request_threads import EVENT_LOOP
from turno.web.services import services

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

# Proxies must neither store nor buffer the stream.
HEADERS = {"X-Accel-Buffering": "no", "Cache-Control": "no-store"}
KEEP_ALIVE = b": still here\n\n"
KEEP_ALIVE_SECONDS = 15.0


class LiveBody:
    """A body in parts, each sent when its subscriber is woken; a thread iterates it, or the event loop."""

    def __init__(self, subscriber: Subscriber, leave: Callable[[], None]) -> None:
        self._subscriber = subscriber
        self._over = False
        self.close = leave

    def __iter__(self) -> Iterator[bytes]:
        woken = self._subscriber.wakes_thread()
        while not self._over:
            woken.clear()
            if part := self._next():
                yield part
            else:
                woken.wait(self._pause())

    async def __aiter__(self) -> AsyncIterator[bytes]:
        woken = self._subscriber.wakes_task()
        while not self._over:
            woken.clear()
            if part := self._next():
                yield part
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._pause()):
                        await woken.wait()

    def _next(self) -> bytes:
        """Return the bytes to send now."""
        raise NotImplementedError

    def _pause(self) -> float:
        """Return the seconds for which a subscriber that is not woken has nothing to send."""
        return max(0.0, self._subscriber.view.until - time())


class Frames(LiveBody):
    """The bytes of a stream: events, comments that keep the connection alive, and the end."""

    _due: float | None = None  # of the next comment; None before the first part

    def _next(self) -> bytes:
        if self._due is None:
            part = RETRY
        else:
            part = self._events()
            if not part and monotonic() >= self._due:
                part = KEEP_ALIVE
        if part:
            self._due = monotonic() + KEEP_ALIVE_SECONDS
        return part

    def _events(self) -> bytes:
        if time() >= self._subscriber.view.until:
            self._subscriber.end(CloseReason.SESSION_OVER)
        frames, reason = self._subscriber.take()
        self._over = reason is not None
        return b"".join(frames) + (close_event(reason) if reason else b"")

    def _pause(self) -> float:
        return min(super()._pause(), max(0.0, (self._due or 0.0) - monotonic()))


class LiveResponse(Response):
    """A response that occupies a place among the streams until `leave`.

    The server closes its body at the end; a response that an error replaces gives the place back with its request.
    """

    def __init__(self, body: Any, leave: Callable[[], None], **options: Any) -> None:
        super().__init__(body, direct_passthrough=True, **options)
        g.turno_leave = leave

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Start the response; the server closes the body."""
        del g.turno_leave
        return super().__call__(environ, start_response)


def most_on_threads() -> int | None:
    """Return how many streams this server may have at once; None where an event loop serves them.

    Elsewhere each occupies a thread: half of them are left to other requests.
    """
    if EVENT_LOOP in request.environ:
        return None
    return services().settings.web_threads // 2 if request.environ["wsgi.multithread"] else 0
