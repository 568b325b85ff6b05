"""The open connections of a web process: their number, and the limits of each."""

import json
import socket
from asyncio import Task, Transport
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from http import HTTPStatus
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

Network = IPv4Network | IPv6Network


class AddressShare:
    """Counts open connections by IPv4 address and by IPv6 network of 64 bits.

    Trusted proxies, which pass on the requests of many clients, and local sockets have no bound.
    """

    def __init__(self, most: int, trusted: Sequence[Network]) -> None:
        self._most = most
        self._open = Counter[Network]()
        self._network = lru_cache(4096)(partial(network_of, trusted=trusted))

    def open(self, host: str) -> Callable[[], None] | None:
        """Count a connection and return the function that counts its end; None if its address has the most."""
        network = self._network(host)
        if network is None:
            return lambda: None
        if self._open[network] >= self._most:
            return None
        self._open[network] += 1
        return partial(self._close, network)

    def _close(self, network: Network) -> None:
        self._open[network] -= 1
        if not self._open[network]:
            del self._open[network]


def network_of(host: str, *, trusted: Sequence[Network]) -> Network | None:
    """Return the network that an address counts for; None for a trusted proxy and for a local socket."""
    if not host:
        return None
    address = ip_address(host.partition("%")[0])
    address = getattr(address, "ipv4_mapped", None) or address
    if any(address in network for network in trusted):
        return None
    return ip_network((address, 32 if address.version == 4 else 64), strict=False)  # noqa: PLR2004 - IPv4


# Seconds that a client has for a head, a body, or to take a response, beside the time of its bytes at the slowest pace.
CLIENT_TIMEOUT_SECONDS = 5.0
MIN_BYTES_PER_SECOND = 4096
CHECK_SECONDS = 0.5
READER_TIMEOUT_SECONDS = 20.0  # in which the reader of a long response takes nothing
LINGER_SECONDS = 2.0  # for a client to read its response before the connection is closed
LARGEST_HEAD = 65_536  # bytes; the longest token that is read has 8 KB
MAX_HELD_BYTES = 64 * 1024 * 1024  # of incomplete bodies and of responses, for all clients together
SEND_BUFFER = 65_536  # bytes that the kernel keeps for the reader of a long response
UNACKNOWLEDGED_MS = 30_000  # after which the kernel closes a connection without acknowledgements
CONNECTION = "turno.connection"  # the key of a request's connection in the state of its ASGI scope


class Connections:
    """The connections of a process, oldest first. At the maximum, an idle or slow one is closed for a new one."""

    def __init__(self, most: int, trusted: Sequence[Network], *, most_held: int = MAX_HELD_BYTES) -> None:
        self.share = AddressShare(most // 2, trusted)
        self.held = 0  # bytes of incomplete bodies
        self._most = most
        self._most_held = most_held
        self._open: dict[ClientConnection, None] = {}
        self._detached: set[ClientConnection] = set()

    def add(self, connection: "ClientConnection") -> None:
        """Count a new connection, and close an idle or slow one at the maximum."""
        self._open[connection] = None
        if len(self._open) >= self._most and (idle := next((one for one in self._open if one.idle), None)):
            self.discard(idle)
            idle.transport.abort()

    def detach(self, connection: "ClientConnection") -> None:
        """Remove a stream's connection from the count: streams have a separate limit."""
        if self._open.pop(connection, self) is None:
            self._detached.add(connection)

    def discard(self, connection: "ClientConnection") -> None:
        """Forget a connection that is closed."""
        self._open.pop(connection, None)
        self._detached.discard(connection)

    def check(self, now: float) -> None:
        """Close the connections of overdue clients; while too many bytes are held, also the largest."""
        for connection in (*self._open, *self._detached):
            connection.check(now)
        self.shed()

    def stop(self) -> None:
        """Give the readers of long responses little time from now on."""
        for connection in self._detached:
            connection.patience = CHECK_SECONDS

    def shed(self) -> None:
        """Close the connection that holds most, until all together hold less than the maximum."""
        sizes = {one: one.size for one in self._open if one.size}
        while sum(sizes.values()) > self._most_held:
            largest = max(sizes, key=lambda one: sizes[one])
            largest.refuse(HTTPStatus.SERVICE_UNAVAILABLE)
            del sizes[largest]


class ClientConnection(HttpToolsProtocol):
    """uvicorn's protocol with limits; a client beyond them gets a refusal, or its connection is closed."""

    def __init__(self, connections: Connections, **uvicorn_arguments: Any) -> None:
        super().__init__(**uvicorn_arguments)
        self.task: Task[None] | None = None  # cancelled when the client leaves
        self._all = connections
        self._held = 0
        self._arrived = 0  # bytes since the last complete head, part of a body or request
        self._head_began: float | None = self.loop.time()
        self._unsent = 0
        self._taken_at = 0.0
        self.patience = CLIENT_TIMEOUT_SECONDS
        self._refused = False
        self._count_end: Callable[[], None] = lambda: None

    @property
    def idle(self) -> bool:
        """Whether no complete request waits for its response."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    @property
    def size(self) -> int:
        """The bytes in memory of an incomplete body and of a response that was not taken."""
        return self._held + self.transport.get_write_buffer_size()

    def hold(self, size: int) -> None:
        """Note the size of an incomplete body."""
        self._all.held += size - self._held
        self._held = size
        if self._all.held > MAX_HELD_BYTES:
            self._all.shed()

    def detach(self, task: "Task[None] | None") -> None:
        """Serve a long response: cancel `task` when the client leaves, and keep little for a slow reader."""
        self.task = task
        self.patience = READER_TIMEOUT_SECONDS
        self._all.detach(self)
        self._count_end()
        self._count_end = lambda: None
        if self.transport.is_closing() and task is not None:
            task.cancel()
            return
        raw = cast("socket.socket", self.transport.get_extra_info("socket"))
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        if raw.family != socket.AF_UNIX:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS)

    def check(self, now: float) -> None:
        """Close the connection if its client is overdue with a head, or with taking a response."""
        unsent = self.transport.get_write_buffer_size()
        if not unsent or unsent < self._unsent - MIN_BYTES_PER_SECOND * CHECK_SECONDS:
            self._taken_at = now
        self._unsent = unsent
        if unsent and now > self._taken_at + self.patience:
            self.transport.abort()
        elif self._head_began is not None and now > self._head_began + CLIENT_TIMEOUT_SECONDS and self.idle:
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
        self._head_began = None
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.write_eof()
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    # The methods of asyncio.Protocol, and the callbacks of httptools.

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Count the connection, or close it at once if its address has its share."""
        super().connection_made(transport)
        counted = self._all.share.open(self.client[0] if self.client else "")
        if counted is None:
            transport.abort()
            return
        self._count_end = counted
        self._all.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the work on a long response."""
        super().connection_lost(exc)
        self._all.discard(self)
        self._count_end()
        self.hold(0)
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
        self.refuse(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE if self._arrived > LARGEST_HEAD else HTTPStatus.BAD_REQUEST
        )

    def on_message_begin(self) -> None:
        """Begin to measure the head."""
        super().on_message_begin()
        self.scope["state"][CONNECTION] = self
        self._head_began = self._head_began or self.loop.time()

    def on_headers_complete(self) -> None:
        """Refuse a head that arrived at once and is too long."""
        if sum(len(name) + len(value) for name, value in self.headers) + len(self.url) > LARGEST_HEAD:
            self._arrived += LARGEST_HEAD
            raise ValueError("the head is too long")
        self._arrived, self._head_began = 0, None
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._arrived = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Take the end of a request."""
        self._arrived = 0
        super().on_message_complete()
