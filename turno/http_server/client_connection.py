"""The open connections of a web process: their number, and the limits of each."""

import json
import socket
from asyncio import Task, Transport
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from turno.http_server.front import CONNECTION, Network, network_of

# Seconds that a client has for a head, a body, or to take a response, beside the time of its bytes at the slowest pace.
CLIENT_TIMEOUT_SECONDS = 5.0
MIN_BYTES_PER_SECOND = 4096
CHECK_SECONDS = 0.5
READER_TIMEOUT_SECONDS = 20.0  # in which the reader of a live response takes nothing
LINGER_SECONDS = 2.0  # for a client to read its response before the connection is closed
LARGEST_HEAD = 65_536  # bytes; the longest token that is read has 8 KB
MAX_HELD_BYTES = 64 * 1024 * 1024  # of incomplete bodies and of responses, for all clients together
SEND_BUFFER = 65_536  # bytes that the kernel keeps for the reader of a live response


class Connections:
    """The connections of a process, oldest first. At the maximum, an idle or slow one is closed for a new one.

    Half of them may come from one IPv4 address or one IPv6 network of 64 bits; trusted proxies, which pass on the
    requests of many clients, and local sockets have no bound. Live responses have a separate limit.
    """

    def __init__(self, most: int, trusted: Sequence[Network]) -> None:
        self._most = most
        self._network_of = lru_cache(4096)(partial(network_of, trusted=trusted))
        self._of_network = Counter[Network | None]()
        self._open: dict[ClientConnection, Network | None] = {}
        self._detached: set[ClientConnection] = set()
        self._held = 0  # bytes of incomplete bodies

    def add(self, connection: "ClientConnection", host: str) -> bool:
        """Count a new connection, and close an idle or slow one at the maximum; False if its address has its share."""
        network = self._network_of(host)
        if network is not None and self._of_network[network] >= self._most // 2:
            return False
        self._of_network[network] += 1
        self._open[connection] = network
        if len(self._open) >= self._most and (idle := next((one for one in self._open if one.idle), None)):
            self.discard(idle)
            idle.transport.abort()
        return True

    def detach(self, connection: "ClientConnection") -> None:
        """Remove the connection of a live response from the count."""
        if connection in self._open:
            self.discard(connection)
            self._detached.add(connection)

    def discard(self, connection: "ClientConnection") -> None:
        """Forget a connection that is closed."""
        self._detached.discard(connection)
        if connection in self._open:
            network = self._open.pop(connection)
            self._of_network[network] -= 1
            if not self._of_network[network]:
                del self._of_network[network]

    def hold(self, size: int) -> None:
        """Add to the size of all incomplete bodies."""
        self._held += size
        if self._held > MAX_HELD_BYTES:
            self._shed()

    def check(self, now: float) -> None:
        """Close the connections of overdue clients; while too many bytes are held, also the largest."""
        for connection in (*self._open, *self._detached):
            connection.check(now)
        self._shed()

    def stop(self) -> None:
        """Give the readers of live responses little time from now on."""
        for connection in self._detached:
            connection.patience = CHECK_SECONDS

    def _shed(self) -> None:
        """Close the connection that holds most, until all together hold less than the maximum."""
        sizes = {one: one.size for one in self._open if one.size}
        while sum(sizes.values()) > MAX_HELD_BYTES:
            largest = max(sizes, key=lambda one: sizes[one])
            largest.refuse(HTTPStatus.SERVICE_UNAVAILABLE)
            del sizes[largest]


class ClientConnection(HttpToolsProtocol):
    """uvicorn's protocol with limits; a client beyond them gets a refusal, or its connection is closed."""

    def __init__(self, connections: Connections, **uvicorn_arguments: Any) -> None:
        super().__init__(**uvicorn_arguments)
        self.task: Task[None] | None = None  # cancelled when the client leaves
        self.patience = CLIENT_TIMEOUT_SECONDS
        self._all = connections
        self._arrived = 0  # bytes since the last complete head, part of a body or request
        self._began: float | None = self.loop.time()  # of the incomplete head or body
        self._body = 0  # bytes of an incomplete body
        self._unsent = 0
        self._taken_at = 0.0
        self._refused = False

    @property
    def idle(self) -> bool:
        """Whether no complete request waits for its response."""
        return self.cycle is None or self.cycle.response_complete or (self.cycle.more_body and not self.pipeline)

    @property
    def size(self) -> int:
        """The bytes in memory of an incomplete body and of a response that was not taken."""
        return self._body + self.transport.get_write_buffer_size()

    def detach(self, task: "Task[None] | None") -> None:
        """Serve a live response: cancel `task` when the client leaves, and keep little for a slow reader."""
        self.task = task
        self.patience = READER_TIMEOUT_SECONDS
        self._all.detach(self)
        if self.transport.is_closing() and task is not None:
            task.cancel()
            return
        raw = cast("socket.socket", self.transport.get_extra_info("socket"))
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)

    def check(self, now: float) -> None:
        """Close the connection if its client is overdue with a head, a body, or with taking a response."""
        unsent = self.transport.get_write_buffer_size()
        if not unsent or unsent < self._unsent - MIN_BYTES_PER_SECOND * CHECK_SECONDS:
            self._taken_at = now
        self._unsent = unsent
        patience = CLIENT_TIMEOUT_SECONDS + self._body / MIN_BYTES_PER_SECOND
        if unsent and now > self._taken_at + self.patience:
            self.transport.abort()
        elif self._began is not None and now > self._began + patience and self.idle:
            self.refuse(HTTPStatus.REQUEST_TIMEOUT)

    def refuse(self, status: HTTPStatus) -> None:
        """Send a refusal in place of the next response, if the client has sent anything, and close the connection."""
        if self._refused or self.transport.is_closing():
            return
        if not self.idle:  # data after a complete request is refused: the request gets its response
            self._refused, self.cycle.keep_alive = True, False
            return
        receiving = self.cycle is not None and not self.cycle.response_complete
        if not (self._arrived or receiving) or (receiving and self.cycle.response_started):
            self.transport.abort()
            return
        body = json.dumps({"type": "about:blank", "title": status.phrase, "status": status}).encode()
        head = f"HTTP/1.1 {status} {status.phrase}\r\nContent-Type: application/problem+json\r\n"
        self.transport.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        self.linger()

    def linger(self) -> None:
        """End the connection after its response; an immediate close would discard the response if the client sends."""
        self._refused = True
        self._began = None
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.write_eof()
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    # The methods of asyncio.Protocol, and the callbacks of httptools.

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Count the connection, or close it at once if its address has its share."""
        super().connection_made(transport)
        if not self._all.add(self, self.client[0] if self.client else ""):
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the work on a live response."""
        super().connection_lost(exc)
        self._all.discard(self)
        self._hold(0)
        if self.task is not None:
            self.task.cancel()

    def data_received(self, data: bytes) -> None:
        """Parse the received data, unless the connection ends; refuse a head, or a chunk's line, that is too long."""
        if self._refused:
            return
        self._arrived += len(data)
        super().data_received(data)
        if self._arrived > LARGEST_HEAD:
            self.refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def resume_writing(self) -> None:
        """Note that the client takes its response."""
        super().resume_writing()
        self._taken_at = self.loop.time()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's signature
        """Refuse a request that the parser rejects."""
        self.refuse(HTTPStatus.BAD_REQUEST)

    def on_message_begin(self) -> None:
        """Begin to measure the head."""
        super().on_message_begin()
        self.scope["state"][CONNECTION] = self
        self._began = self._began or self.loop.time()

    def on_headers_complete(self) -> None:
        """Refuse a head that arrived at once and is too long; begin to measure the body, unless its request waits."""
        if sum(len(name) + len(value) for name, value in self.headers) + len(self.url) > LARGEST_HEAD:
            self.refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            raise ValueError("the head is too long")
        super().on_headers_complete()
        self._arrived, self._began = 0, None if self.pipeline else self.loop.time()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._arrived = 0
        super().on_body(body)
        self._hold(self._body + len(body))

    def on_message_complete(self) -> None:
        """Take the end of a request."""
        self._arrived, self._began = 0, None
        super().on_message_complete()
        self._hold(0)

    def on_response_complete(self) -> None:
        """Begin to measure the incomplete body of the next request; after a refusal, read no request."""
        if self._refused and not self.transport.is_closing():
            self.linger()
        super().on_response_complete()
        if self.cycle.more_body and not self.cycle.response_complete:
            self._began = self.loop.time()

    def _hold(self, size: int) -> None:
        change, self._body = size - self._body, size
        self._all.hold(change)
