"""The web application under an ASGI server: threads run complete requests, the event loop waits for the clients."""

import asyncio
import io
import logging
import sys
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote_to_bytes

from turno.http_server.client_connection import (
    CLIENT_TIMEOUT_SECONDS,
    CONNECTION,
    MIN_BYTES_PER_SECOND,
    ClientConnection,
    Network,
    network_of,
)
from turno.http_server.thread_shares import EVENT_LOOP, PLACES, WANTED, ThreadShares

log = logging.getLogger(__name__)

PART_BYTES = 262_144  # bytes of a response that a thread reads in one step
PLACE_WAIT_SECONDS = 2.0  # seconds a request waits until its tenant has a place
MAX_WAITING_REQUESTS = 100  # requests of one tenant that wait for that
ERROR = b'{"type": "about:blank", "title": "Internal Server Error", "status": 500}'
STOPPED = (
    b'{"type": "about:blank", "title": "Service Unavailable", "status": 503, "detail": "The server stops; the state of '
    b'this request is unknown. Send it again, with the same Idempotency-Key if it submits a job."}'
)
STOPPED_HEADERS = [
    (b"content-type", b"application/problem+json"),
    (b"content-length", b"%d" % len(STOPPED)),
    (b"retry-after", b"1"),
    (b"connection", b"close"),
]

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Front:
    """An ASGI application that serves a WSGI application.

    It collects a request's body before a thread handles the request, and sends the response without a thread. A
    response that is an asynchronous iterable, too, as a live stream is, is iterated by the event loop. A request waits
    while its tenant has no free place among the threads. Bodies above `largest_body` are left to the application to
    refuse.
    """

    def __init__(self, wsgi_app: WsgiApp, *, threads: int, largest_body: int, trusted: Sequence[Network]) -> None:
        self._wsgi_app = wsgi_app
        self._largest_body = largest_body
        self._trusted = trusted
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="request")
        self._places = ThreadShares(threads, freed=self._place_is_free)
        self._waiting: defaultdict[int, deque[asyncio.Future[None]]] = defaultdict(deque)
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Serve a request; its connection is closed if the client leaves."""
        connection: ClientConnection = scope["state"][CONNECTION]
        try:
            body, complete = await self._body(scope, connection, receive)
            response = await self._respond(self._environ(scope, body, complete=complete))
        except TimeoutError:
            connection.refuse(HTTPStatus.REQUEST_TIMEOUT)
            return
        except ClientLeft:
            return
        except asyncio.CancelledError:  # the grace period of the shutdown has passed
            await send({"type": "http.response.start", "status": 503, "headers": STOPPED_HEADERS})
            await send({"type": "http.response.body", "body": STOPPED})
            return
        if not complete:
            response.headers.append((b"connection", b"close"))
        if response.asynchronous:
            await self._send_live(response, connection, scope, send)
        else:
            await self._send(response, connection, send, keep=complete)

    async def _body(self, scope: dict[str, Any], connection: ClientConnection, receive: Receive) -> tuple[bytes, bool]:
        """Return the body, and whether it is complete: of one that is too large, only a part.

        Raises TimeoutError for a client below the slowest pace, ClientLeft if it has left.
        """
        if int(dict(scope["headers"]).get(b"content-length", 0)) > self._largest_body:
            return b"", False
        parts, size = [], 0
        async with asyncio.timeout(CLIENT_TIMEOUT_SECONDS) as deadline:
            began = deadline.when() or 0.0
            try:
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientLeft
                    parts.append(message["body"])
                    size += len(message["body"])
                    if not message["more_body"] or size > self._largest_body:
                        return b"".join(parts), not message["more_body"]
                    connection.hold(size)
                    deadline.reschedule(began + size / MIN_BYTES_PER_SECOND)
            finally:
                connection.hold(0)

    def _environ(self, scope: dict[str, Any], body: bytes, *, complete: bool) -> dict[str, Any]:
        """Return the WSGI environment of a request."""
        server, client = scope["server"] or ("", 0), (scope["client"] or ("", 0))[0]
        environ = {
            "REQUEST_METHOD": scope["method"],
            "SCRIPT_NAME": "",
            "PATH_INFO": unquote_to_bytes(scope["raw_path"]).decode("latin-1"),
            "QUERY_STRING": scope["query_string"].decode("latin-1"),
            "SERVER_NAME": server[0],
            "SERVER_PORT": str(server[1]),
            "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
            "REMOTE_ADDR": client,
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": scope["scheme"],
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
            "wsgi.input": io.BytesIO(body),
            "wsgi.input_terminated": True,
            EVENT_LOOP: True,
            PLACES: self._places,
        }
        for name, value in scope["headers"]:
            # A name with an underscore would be that of another header in this environment.
            if b"_" in name:
                continue
            key, text = name.decode("latin-1").upper().replace("-", "_"), value.decode("latin-1")
            if name not in {b"content-type", b"content-length"}:
                key = f"HTTP_{key}"
            environ[key] = f"{environ[key]},{text}" if key in environ else text
        if "HTTP_TRANSFER_ENCODING" in environ and complete:
            del environ["HTTP_TRANSFER_ENCODING"]
            environ["CONTENT_LENGTH"] = str(len(body))
        if environ.get("HTTP_X_FORWARDED_PROTO") == "https" and network_of(client, trusted=self._trusted) is None:
            environ["wsgi.url_scheme"] = "https"
        return environ

    async def _respond(self, environ: dict[str, Any]) -> "WsgiResponse":
        """Have a thread handle a request, again when its tenant has a place if it had none, for some seconds."""
        self._loop = asyncio.get_running_loop()
        until = self._loop.time() + PLACE_WAIT_SECONDS
        while True:
            attempt = environ.copy()
            response: WsgiResponse = await self._run(partial(WsgiResponse, self._wsgi_app, attempt))
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

    async def _run(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _send(self, response: "WsgiResponse", connection: ClientConnection, send: Send, *, keep: bool) -> None:
        """Send a response as the client takes it; a thread reads each further part of a long body."""
        await send(response.start())
        while not response.over and not connection.transport.is_closing():
            await send({"type": "http.response.body", "body": response.part, "more_body": True})
            await self._run(response.read)
        if not response.over:
            await self._run(response.close)
        await send({"type": "http.response.body", "body": response.part, "more_body": not keep})
        if not keep:
            connection.linger()

    async def _send_live(
        self, response: "WsgiResponse", connection: ClientConnection, scope: dict[str, Any], send: Send
    ) -> None:
        """Send the parts of a response when each is there, until it or its client ends."""
        if scope["http_version"] == "1.0":  # it has no chunks, and the length is not known
            await self._run(response.close)
            status, headers = HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, [(b"content-length", b"0")]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body"})
            return
        try:
            connection.detach(asyncio.current_task())
            begun = False
            async with aclosing(aiter(response.body)) as parts:
                async for part in parts:
                    if not begun:
                        begun = True
                        response.headers.append((b"connection", b"close"))
                        await send(response.start())
                    await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body"})
        except asyncio.CancelledError:
            connection.transport.close()
        finally:
            connection.task = None
            response.close()


class ClientLeft(Exception):
    """The client closed the connection before its request was complete."""


class WsgiResponse:
    """The response of a WSGI application, and the part of its body that was read; created by a thread."""

    def __init__(self, wsgi_app: WsgiApp, environ: dict[str, Any]) -> None:
        self.asynchronous = False
        try:
            self.body: Any = wsgi_app(environ, self._start)
            self.asynchronous = hasattr(self.body, "__aiter__")
            if not self.asynchronous:
                self._parts = iter(self.body)
                self.read()
        except Exception:
            log.exception("the application raised an error")
            self.status, self.headers = (
                HTTPStatus.INTERNAL_SERVER_ERROR.value,
                [(b"content-length", b"%d" % len(ERROR))],
            )
            self.part, self.over, self.asynchronous = ERROR, True, False

    def _start(self, status: str, headers: list[tuple[str, str]], _error: Any = None) -> Callable[[bytes], object]:
        self.status = int(status[:3])
        self.headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        return io.BytesIO().write

    def start(self) -> dict[str, Any]:
        """Return the ASGI message that starts the response."""
        return {"type": "http.response.start", "status": self.status, "headers": self.headers}

    def read(self) -> None:
        """Read the next part of the body, up to some size, and close the body after its end."""
        parts, size, self.over = [], 0, False
        for part in self._parts:
            parts.append(part)
            size += len(part)
            if size >= PART_BYTES:
                break
        else:
            self.over = True
            self.close()
        self.part = b"".join(parts)

    def close(self) -> None:
        """Close the body."""
        getattr(self.body, "close", lambda: None)()
