"""The web application under an ASGI server: threads run complete requests, the event loop waits for the clients."""

import asyncio
import io
import logging
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, MutableMapping, Sequence
from contextlib import aclosing
from functools import partial
from http import HTTPStatus
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from threading import RLock
from typing import TYPE_CHECKING, Any

from turno.http_server.request_threads import RequestThreads

if TYPE_CHECKING:
    from turno.http_server.client_connection import ClientConnection

log = logging.getLogger(__name__)

PART_BYTES = 262_144  # bytes of a response that a thread reads in one step
ERROR = b'{"type": "about:blank", "title": "Internal Server Error", "status": 500}'
CONNECTION = "turno.connection"  # the key of a request's ClientConnection in the state of its ASGI scope
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

Network = IPv4Network | IPv6Network
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def network_of(host: str, *, trusted: Sequence[Network]) -> Network | None:
    """Return the network that an address counts for; None for a trusted proxy and for a local socket."""
    if not host:
        return None
    address = ip_address(host.partition("%")[0])
    address = getattr(address, "ipv4_mapped", None) or address
    if any(address in network for network in trusted):
        return None
    return ip_network((address, 32 if address.version == 4 else 64), strict=False)  # noqa: PLR2004 - IPv4


def environ_of(scope: Scope, body: bytes, *, complete: bool, trusted: Sequence[Network]) -> dict[str, Any]:
    """Return the WSGI environment of a request; `trusted` proxies may state that browsers use HTTPS."""
    server, client = scope["server"] or ("", 0), (scope["client"] or ("", 0))[0]
    root = scope.get("root_path", "")  # the path contains it
    environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": root.encode().decode("latin-1"),
        "PATH_INFO": scope["path"].removeprefix(root).encode().decode("latin-1"),
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
    if environ.get("HTTP_X_FORWARDED_PROTO") == "https" and network_of(client, trusted=trusted) is None:
        environ["wsgi.url_scheme"] = "https"
    return environ


class WsgiResponse:
    """The response of a WSGI application, and the part of its body that was read; created by a thread."""

    def __init__(self, wsgi_app: WsgiApp, environ: dict[str, Any]) -> None:
        self.asynchronous = self.over = False
        self._reading = RLock()
        try:
            self.body: Any = wsgi_app(environ, self._start)
            self.asynchronous = hasattr(self.body, "__aiter__")
            if not self.asynchronous:
                self._parts = iter(self.body)
                self.read()
        except Exception:
            log.exception("the application raised an error")
            self.replace(HTTPStatus.INTERNAL_SERVER_ERROR, ERROR)

    def _start(self, status: str, headers: list[tuple[str, str]], _error: Any = None) -> Callable[[bytes], object]:
        self.status = int(status[:3])
        self.headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        return io.BytesIO().write

    def replace(self, status: HTTPStatus, body: bytes = b"") -> None:
        """Send this status and body instead."""
        self.status, self.headers = status.value, [(b"content-length", b"%d" % len(body))]
        self.part, self.over, self.asynchronous = body, True, False

    def start(self) -> Message:
        """Return the ASGI message that starts the response."""
        return {"type": "http.response.start", "status": self.status, "headers": self.headers}

    async def live(self) -> AsyncGenerator[Message, None]:
        """Return the ASGI messages of an asynchronous body, the start with its first part."""
        begun = False
        async with aclosing(aiter(self.body)) as parts:
            async for part in parts:
                if not begun:
                    begun = True
                    yield self.start()
                yield {"type": "http.response.body", "body": part, "more_body": True}
        yield {"type": "http.response.body"}

    def read(self) -> None:
        """Read the next part of the body, up to some size, and close the body after its end."""
        parts, size = [], 0
        with self._reading:
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
        """Close the body, after the present read of another thread."""
        with self._reading:
            getattr(self.body, "close", lambda: None)()


class ClientLeft(Exception):
    """The client closed the connection before its request or response was complete."""


class Front:
    """An ASGI application that serves a WSGI application, under `turno serve` or another server.

    It collects a request's body before a thread handles the request, and sends the response without a thread. A
    response that is an asynchronous iterable, too, as a live stream is, is iterated by the event loop. Bodies above
    `largest_body` are left to the application to refuse.
    """

    def __init__(self, wsgi_app: WsgiApp, *, threads: int, largest_body: int, trusted: Sequence[Network]) -> None:
        self._largest_body = largest_body
        self._trusted = trusted
        self._threads = RequestThreads(threads)
        self._handle = partial(WsgiResponse, wsgi_app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send, more: dict[str, Any] | None = None) -> None:
        """Serve a request, with `more` in its WSGI environment; its connection is closed if the client leaves."""
        connection: ClientConnection | None = scope.get("state", {}).get(CONNECTION)
        try:
            body, complete = await self._body(scope, receive)
            environ = environ_of(scope, body, complete=complete, trusted=self._trusted) | (more or {})
            response = await self._threads.respond(self._handle, environ)
        except ClientLeft:
            return
        except asyncio.CancelledError:  # the grace period of the shutdown has passed
            if connection is None:
                raise
            await send({"type": "http.response.start", "status": 503, "headers": STOPPED_HEADERS})
            await send({"type": "http.response.body", "body": STOPPED})
            return
        if response.asynchronous and scope["http_version"] == "1.0":  # it has no chunks, and the length is not known
            await self._threads.run(response.close)
            response.replace(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
        if response.asynchronous:
            sending = self._send_live(response, connection, send)
        else:
            sending = self._send(response, connection, send, closes=connection is not None and not complete)
        if connection is None and not response.over:
            await _until_client_leaves(receive, sending)
        else:
            await sending

    async def _body(self, scope: Scope, receive: Receive) -> tuple[bytes, bool]:
        """Return the body, and whether it is complete: of one that is too large, only a part; raises ClientLeft."""
        if int(dict(scope["headers"]).get(b"content-length", 0)) > self._largest_body:
            return b"", False
        parts, size, more = [], 0, True
        while more and size <= self._largest_body:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientLeft
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            more = message.get("more_body", False)
        return b"".join(parts), not more

    async def _send(
        self, response: WsgiResponse, connection: "ClientConnection | None", send: Send, *, closes: bool
    ) -> None:
        """Send a response as the client takes it; a thread reads each further part of a long body."""
        if closes:
            response.headers.append((b"connection", b"close"))
        try:
            await send(response.start())
            while not (response.over or (connection and connection.transport.is_closing())):
                await send({"type": "http.response.body", "body": response.part, "more_body": True})
                await self._threads.run(response.read)
        finally:
            if not response.over:
                await self._threads.run(response.close)
        await send({"type": "http.response.body", "body": response.part, "more_body": closes})
        if connection and closes:
            connection.linger()

    async def _send_live(self, response: WsgiResponse, connection: "ClientConnection | None", send: Send) -> None:
        """Send the parts of a response when each is there, until it or its client ends."""
        try:
            if connection:
                connection.detach(asyncio.current_task())
            async with aclosing(response.live()) as messages:
                async for message in messages:
                    # The body of ?wait has no headers before its first part.
                    if connection and message["type"] == "http.response.start":
                        message["headers"].append((b"connection", b"close"))
                    await send(message)
        except asyncio.CancelledError:
            if connection is None:
                raise
            connection.transport.close()
        finally:
            if connection:
                connection.task = None
            response.close()


async def _until_client_leaves(receive: Receive, sending: Coroutine[Any, Any, None]) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(_client_leaves(receive))
            await sending
            watch.cancel()
    except* ClientLeft:
        pass


async def _client_leaves(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    raise ClientLeft
