"""The web application under an ASGI server: threads run complete requests, the event loop waits for the clients."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from http import HTTPStatus

from turno.http_server.client_connection import (
    CLIENT_TIMEOUT_SECONDS,
    CONNECTION,
    MIN_BYTES_PER_SECOND,
    ClientConnection,
    Network,
)
from turno.http_server.request_threads import RequestThreads
from turno.http_server.wsgi import ClientLeft, Receive, Scope, Send, WsgiApp, WsgiResponse, environ_of

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


class Front:
    """An ASGI application that serves a WSGI application.

    It collects a request's body before a thread handles the request, and sends the response without a thread. A
    response that is an asynchronous iterable, too, as a live stream is, is iterated by the event loop. Bodies above
    `largest_body` are left to the application to refuse.
    """

    def __init__(self, wsgi_app: WsgiApp, *, threads: int, largest_body: int, trusted: Sequence[Network]) -> None:
        self._largest_body = largest_body
        self._trusted = trusted
        self._threads = RequestThreads(wsgi_app, threads)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; its connection is closed if the client leaves."""
        connection: ClientConnection = scope["state"][CONNECTION]
        try:
            body, complete = await self._body(scope, connection, receive)
            response = await self._threads.respond(environ_of(scope, body, complete=complete, trusted=self._trusted))
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

    async def _body(self, scope: Scope, connection: ClientConnection, receive: Receive) -> tuple[bytes, bool]:
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

    async def _send(self, response: WsgiResponse, connection: ClientConnection, send: Send, *, keep: bool) -> None:
        """Send a response as the client takes it; a thread reads each further part of a long body."""
        await send(response.start())
        while not response.over and not connection.transport.is_closing():
            await send({"type": "http.response.body", "body": response.part, "more_body": True})
            await self._threads.run(response.read)
        if not response.over:
            await self._threads.run(response.close)
        await send({"type": "http.response.body", "body": response.part, "more_body": not keep})
        if not keep:
            connection.linger()

    async def _send_live(self, response: WsgiResponse, connection: ClientConnection, scope: Scope, send: Send) -> None:
        """Send the parts of a response when each is there, until it or its client ends."""
        if scope["http_version"] == "1.0":  # it has no chunks, and the length is not known
            await self._threads.run(response.close)
            status, headers = HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, [(b"content-length", b"0")]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body"})
            return
        try:
            connection.detach(asyncio.current_task())
            async with aclosing(response.live()) as messages:
                async for message in messages:
                    # The body of ?wait has no headers before its first part.
                    if message["type"] == "http.response.start":
                        message["headers"].append((b"connection", b"close"))
                    await send(message)
        except asyncio.CancelledError:
            connection.transport.close()
        finally:
            connection.task = None
            response.close()
