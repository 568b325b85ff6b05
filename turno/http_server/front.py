"""The web application under an ASGI server: threads run complete requests, the event loop waits for the clients."""

import asyncio
import io
import json
import logging
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, MutableMapping, Sequence
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

CLIENT_TIMEOUT_SECONDS = 5.0  # for a head, a body, or a part of a response, beside the time at the slowest pace
MIN_BYTES_PER_SECOND = 4096
MAX_BUFFERED_BYTES = 64 * 1024 * 1024  # of incomplete bodies, and of responses that wait for their clients
PART_BYTES = 262_144  # bytes of a response that a thread reads in one step
CONNECTION = "turno.connection"  # the key of a request's ClientConnection in the state of its ASGI scope
STOPPED = (
    "The server stops; the state of this request is unknown. Send it again, with the same Idempotency-Key if it "
    "submits a job."
)

Network = IPv4Network | IPv6Network
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Headers = list[tuple[str, str]]
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


def problem_body(status: HTTPStatus, detail: str = "") -> bytes:
    """Return the JSON of a problem that has no type of its own."""
    problem = {"type": "about:blank", "title": status.phrase, "status": status}
    return json.dumps(problem | ({"detail": detail} if detail else {})).encode()


def refusal(status: HTTPStatus, detail: str = "", headers: Headers | None = None) -> "WsgiResponse":
    """Return a problem as the response of the server itself."""
    body = problem_body(status, detail)
    about = [("Content-Type", "application/problem+json"), ("Content-Length", str(len(body))), *(headers or [])]

    def refuse(_environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        start_response(f"{status} {status.phrase}", about)
        return [body]

    return WsgiResponse(refuse, {})


class WsgiResponse:
    """The response of a WSGI application, and the part of its body that was read; created by a thread."""

    def __init__(self, wsgi_app: WsgiApp, environ: dict[str, Any]) -> None:
        self.over = False
        self._reading = RLock()
        self.body: Any = wsgi_app(environ, self._start)
        self.asynchronous = hasattr(self.body, "__aiter__")
        if not self.asynchronous:
            self._parts = iter(self.body)
            self.read()

    def _start(self, status: str, headers: Headers, _error: Any = None) -> Callable[[bytes], object]:
        self._status = int(status[:3])
        self._headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        return io.BytesIO().write

    def start(self, *, closes: bool) -> Message:
        """Return the ASGI message that starts the response; `closes` tells the client that the connection ends."""
        headers = [*self._headers, (b"connection", b"close")] if closes else self._headers
        return {"type": "http.response.start", "status": self._status, "headers": headers}

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


def handled(wsgi_app: WsgiApp, environ: dict[str, Any]) -> WsgiResponse:
    """Return the response of an application, 500 if it raises an error, 505 for a live body over HTTP/1.0."""
    try:
        response = WsgiResponse(wsgi_app, environ)
    except Exception:
        log.exception("the application raised an error")
        return refusal(HTTPStatus.INTERNAL_SERVER_ERROR)
    if response.asynchronous and environ["SERVER_PROTOCOL"] == "HTTP/1.0":  # no chunks, and the length is not known
        response.close()
        return refusal(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
    return response


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
        self._handle = partial(handled, wsgi_app)
        self._incomplete: dict[asyncio.Timeout, int] = {}  # the sizes of all incomplete bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send, more: dict[str, Any] | None = None) -> None:
        """Serve a request, with `more` in its WSGI environment; its connection is closed if the client leaves."""
        connection: ClientConnection | None = scope.get("state", {}).get(CONNECTION)
        complete = False
        try:
            body, complete = await self._body(scope, receive)
            environ = environ_of(scope, body, complete=complete, trusted=self._trusted) | (more or {})
            response = await self._threads.respond(self._handle, environ)
        except ClientLeft:
            return
        except TimeoutError:
            response = refusal(HTTPStatus.REQUEST_TIMEOUT)
        except asyncio.CancelledError:  # the grace period of the shutdown has passed
            if connection is None:
                raise
            response = refusal(HTTPStatus.SERVICE_UNAVAILABLE, STOPPED, [("Retry-After", "1")])
        if response.asynchronous:
            sending = self._send_live(response, connection, send)
        else:
            sending = self._send(response, connection, send, closes=connection is not None and not complete)
        if response.over:
            await sending
        else:
            await _until_client_leaves(receive, sending)

    async def _body(self, scope: Scope, receive: Receive) -> tuple[bytes, bool]:
        """Return the body, and whether it is complete: of one that is too large, only a part.

        Raises ClientLeft, and TimeoutError for a slow client; also for the largest body while all hold too much memory.
        """
        if int(dict(scope["headers"]).get(b"content-length", 0)) > self._largest_body:
            return b"", False
        parts, size, more = [], 0, True
        due = asyncio.get_running_loop().time() + CLIENT_TIMEOUT_SECONDS
        async with asyncio.timeout_at(due) as limit:
            try:
                while more and size <= self._largest_body:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientLeft
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    more = message.get("more_body", False)
                    if more:
                        limit.reschedule(due + size / MIN_BYTES_PER_SECOND)
                        self._hold(limit, size)
            finally:
                self._incomplete.pop(limit, None)
        return b"".join(parts), not more

    def _hold(self, limit: asyncio.Timeout, size: int) -> None:
        """Note the size of an incomplete body; end the time of the largest while all together are too large."""
        self._incomplete[limit] = size
        if sum(self._incomplete.values()) > MAX_BUFFERED_BYTES:
            largest = max(self._incomplete, key=lambda body: self._incomplete[body])
            del self._incomplete[largest]
            largest.reschedule(0)

    async def _send(
        self, response: WsgiResponse, connection: "ClientConnection | None", send: Send, *, closes: bool
    ) -> None:
        """Send a response as the client takes it; a thread reads each further part of a long body."""
        try:
            await send(response.start(closes=closes))
            while not response.over:
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
        if connection:
            connection.detach()
        begun = False
        try:
            async with aclosing(aiter(response.body)) as parts:
                async for part in parts:
                    if not begun:  # the body of ?wait has no headers before its first part
                        begun = True
                        await send(response.start(closes=connection is not None))
                    await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body"})
        finally:
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
