"""The open connections of a web process: their number, and the limits of each."""

import socket
from asyncio import Transport
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from turno.http_server.front import (
    CLIENT_TIMEOUT_SECONDS,
    CONNECTION,
    MAX_BUFFERED_BYTES,
    MIN_BYTES_PER_SECOND,
    Network,
    network_of,
    problem_body,
)

CHECK_SECONDS = 0.5
READER_TIMEOUT_SECONDS = 20.0  # in which the reader of a live response takes nothing
LINGER_SECONDS = 2.0  # for a client to read its response before the connection is closed
LARGEST_HEAD = 65_536  # bytes; the longest token that is read has 8 KB
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
        self._live: set[ClientConnection] = set()

    def add(self, connection: "ClientConnection", host: str) -> bool:
        """Count a new connection, and close an idle or slow one at the maximum; False if its address has its share."""
        network = self._network_of(host)
        if network is not None and self._of_network[network] >= self._most // 2:
            return False
        self._of_network[network] += 1
        self._open[connection] = network
        if len(self._open) >= self._most and (
            idle := next((candidate for candidate in self._open if candidate.idle), None)
        ):
            self.discard(idle)
            idle.transport.abort()
        return True

    def detach(self, connection: "ClientConnection") -> None:
        """Remove the connection of a live response from the count."""
        if connection in self._open:
            self.discard(connection)
            self._live.add(connection)

    def discard(self, connection: "ClientConnection") -> None:
        """Forget a connection that is closed."""
        self._live.discard(connection)
        if connection in self._open:
            network = self._open.pop(connection)
            self._of_network[network] -= 1
            if not self._of_network[network]:
                del self._of_network[network]

    def check(self, now: float) -> None:
        """Close the connections of overdue clients, and those with the largest responses while all hold too much."""
        for connection in (*self._open, *self._live):
            connection.check(now)
        by_size = sorted(self._open, key=lambda candidate: candidate.unsent)
        while sum(candidate.unsent for candidate in by_size) > MAX_BUFFERED_BYTES:
            by_size.pop().transport.abort()

    def stop(self) -> None:
        """Give the readers of live responses little time from now on."""
        for connection in self._live:
            connection.patience = CHECK_SECONDS


class ClientConnection(HttpToolsProtocol):
    """uvicorn's protocol with limits: size and time of a head, and the pace at which a client takes its response.

    A client beyond them gets a refusal, or its connection is closed.
    """

    def __init__(self, connections: Connections, **uvicorn_arguments: Any) -> None:
        super().__init__(**uvicorn_arguments)
        self.app_state = {CONNECTION: self}  # uvicorn copies it into the scope of each request
        self.patience = CLIENT_TIMEOUT_SECONDS
        self.unsent = 0  # bytes of responses at the last check
        self._taken_at = self.loop.time()
        self._all = connections
        self._head = 0  # bytes since the last complete head, without those of a body
        self._began: float | None = self.loop.time()  # of the incomplete head
        self._refused = False

    @property
    def idle(self) -> bool:
        """Whether no complete request waits for its response."""
        return self.cycle is None or self.cycle.response_complete or (self.cycle.more_body and not self.pipeline)

    def detach(self) -> None:
        """Serve a live response: keep little for a slow reader."""
        self.patience = READER_TIMEOUT_SECONDS
        self._all.detach(self)
        if not self.transport.is_closing():
            raw = cast("socket.socket", self.transport.get_extra_info("socket"))
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)

    def check(self, now: float) -> None:
        """Close the connection if its client is overdue with a head, or with taking a response."""
        unsent = self.transport.get_write_buffer_size()
        if not unsent or unsent < self.unsent - MIN_BYTES_PER_SECOND * CHECK_SECONDS:
            self._taken_at = now
        self.unsent = unsent
        if unsent and now > self._taken_at + self.patience:
            self.transport.abort()
        elif self._began is not None and now > self._began + CLIENT_TIMEOUT_SECONDS and self.idle:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)

    def linger(self) -> None:
        """End the connection after its response; an immediate close would discard the response if the client sends."""
        self._refused = True
        self._began = None
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.write_eof()
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def _refuse(self, status: HTTPStatus) -> None:
        """Send a refusal in place of the next response, if the client has sent anything, and close the connection."""
        if self._refused or self.transport.is_closing():
            return
        if not self.idle:  # the complete requests get their responses, the request after them none
            self._refused = True
            if self.pipeline and self.cycle.more_body:
                self.pipeline.popleft()
            self.cycle.keep_alive = False
            return
        receiving = self.cycle is not None and not self.cycle.response_complete
        if not (self._head or receiving) or (receiving and self.cycle.response_started):
            self.transport.abort()
            return
        body = problem_body(status)
        head = f"HTTP/1.1 {status} {status.phrase}\r\nContent-Type: application/problem+json\r\n"
        self.transport.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        self.linger()

    # The methods of asyncio.Protocol, and those that uvicorn's protocol calls.

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Count the connection, or close it at once if its address has its share."""
        super().connection_made(transport)
        if not self._all.add(self, self.client[0] if self.client else ""):
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self._all.discard(self)

    def data_received(self, data: bytes) -> None:
        """Parse the received data, unless the connection ends; refuse a head that is too long."""
        if self._refused:
            return
        if self.cycle is None or not self.cycle.more_body:
            self._head += len(data)
            self._began = self._began or self.loop.time()
        super().data_received(data)
        if self._head > LARGEST_HEAD:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def resume_writing(self) -> None:
        """Note that the client takes its response."""
        super().resume_writing()
        self._taken_at = self.loop.time()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's signature
        """Refuse a request that the parser rejects."""
        too_long = self._head > LARGEST_HEAD
        self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE if too_long else HTTPStatus.BAD_REQUEST)

    def on_headers_complete(self) -> None:
        """Refuse a head that arrived at once and is too long."""
        size = sum(len(name) + len(value) for name, value in self.headers) + len(self.url)
        if size > LARGEST_HEAD:
            self._head = size
            raise ValueError("the head is too long")
        super().on_headers_complete()
        self._head, self._began = 0, None
