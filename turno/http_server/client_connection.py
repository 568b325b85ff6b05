"""A client's connection that no thread waits for: what comes and goes slowly does so between the requests."""

from __future__ import annotations

import json
import os
import selectors
from abc import ABC, abstractmethod
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any

from gunicorn import http
from gunicorn.http.unreader import Unreader
from gunicorn.workers.gthread import TConn

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from turno.http_server.incoming_request import IncomingRequest

# Seconds a client has for a request, or to take an answer, beside the time its bytes take at the slowest pace.
CLIENT_TIMEOUT_SECONDS = 5.0
MIN_BYTES_PER_SECOND = 4096  # bytes a second
# Seconds in which a client that was told the end may hang up first, so that it can read what was sent.
LINGER_SECONDS = 2.0
MAX_FILE_BYTES = 262_144  # bytes of a file sent to one client before the others have their turn
MAX_READ_BYTES = 65_536  # bytes read from one client before the others have their turn


class ClientSocket:
    """A socket as gunicorn's threads use it, but one that never makes them wait: `unsent` is what was not taken yet."""

    def __init__(self, raw: socket.socket) -> None:
        raw.settimeout(0)
        self.raw = raw
        self.unsent = bytearray()
        self._file: tuple[int, int, int] | None = None  # a descriptor, from where on, and how many bytes are left
        self.patient = True  # whether its request may still be postponed

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self.raw.fileno()

    def recv(self, size: int) -> bytes:
        """Return what is here; raises BlockingIOError if nothing is."""
        return self.raw.recv(size)

    def sendall(self, data: bytes) -> None:
        """Send these bytes, after those that wait: now as far as the client takes them, and the rest later."""
        self.unsent += data
        self.flush()

    def send(self, data: bytes) -> int:
        """Do as `sendall` does."""
        self.sendall(data)
        return len(data)

    def sendfile(self, file: Any, offset: int = 0, count: int = 0) -> None:
        """Send these bytes of a file after those that wait; however slowly the client takes them, none is in memory."""
        assert self._file is None, "one file is the end of an answer"  # noqa: S101
        self._file = os.dup(file.fileno()), offset, count
        self.flush()

    @property
    def idle(self) -> bool:
        """Whether all was sent."""
        return not self.unsent and self._file is None

    def flush(self) -> int:
        """Send what the client takes now, of a file a part at most; returns how many bytes. Raises OSError."""
        sent = 0
        try:
            while self.unsent:
                taken = self.raw.send(self.unsent)
                del self.unsent[:taken]
                sent += taken
            if self._file is not None:
                sent += self._send_part(*self._file)
        except BlockingIOError:
            pass
        return sent

    def _send_part(self, descriptor: int, offset: int, left: int) -> int:
        taken = os.sendfile(self.raw.fileno(), descriptor, offset, min(left, MAX_FILE_BYTES))
        if not taken and left:
            raise ConnectionAbortedError("a file became shorter while it was sent")
        self._file = descriptor, offset + taken, left - taken
        if left == taken:
            self._drop_file()
        return taken

    def _drop_file(self) -> None:
        if self._file is not None:
            os.close(self._file[0])
            self._file = None

    def shutdown(self, how: int) -> None:
        """Tell the client that nothing more follows."""
        self.raw.shutdown(how)

    def close(self) -> None:
        """Close it at once, whatever was not sent."""
        self.unsent.clear()
        self._drop_file()
        self.raw.close()

    def gettimeout(self) -> float:
        """Return 0: it never waits."""
        return 0.0

    def settimeout(self, seconds: float) -> None:
        """Stay as it is."""

    def setblocking(self, blocking: bool) -> None:  # noqa: FBT001 - gunicorn's own signature
        """Stay as it is."""


class Received(Unreader):  # type: ignore[misc]  # gunicorn has no types
    """What has arrived, for gunicorn's parser: whoever reads beyond it finds the end."""

    cut = False

    def chunk(self, size_hint: int | None = None) -> bytes:  # noqa: ARG002 - gunicorn's own signature
        """Return the end, and remember that where the next request begins is not known."""
        self.cut = True
        return b""


class Phase(ABC):
    """What a connection does without a thread; `interest` is what its socket is watched for."""

    interest = selectors.EVENT_READ

    def __init__(self) -> None:
        self.began = monotonic()
        self.moved = 0  # bytes
        self.latest = inf

    @property
    def due(self) -> float:
        """Until when it may last: who keeps the slowest pace has all the time it takes."""
        return min(self.latest, self.began + CLIENT_TIMEOUT_SECONDS + self.moved / MIN_BYTES_PER_SECOND)

    @property
    def held(self) -> int:
        """Bytes kept for it."""
        return 0

    @property
    def overdue_answer(self) -> bytes:
        """What a client is told that took too long."""
        return b""

    @abstractmethod
    def advance(self, client: ClientSocket) -> bool:
        """Do what can be done now, and say whether that was all; raises OSError if the client is gone, or TooLarge."""


class Receiving(Phase):
    """A request arrives."""

    def __init__(self, request: IncomingRequest, begun: bytes) -> None:
        super().__init__()
        self.request = request
        self._begun = begun  # what came along with the request before
        self._told_to_continue = False

    @property
    def held(self) -> int:
        """What has arrived of it."""
        return len(self.request.received)

    @property
    def overdue_answer(self) -> bytes:
        """A refusal, if it was begun."""
        # A browser opens connections ahead of need: one that asked for nothing is closed without a word.
        return refusal(408, "Request Timeout") if self.request.received else b""

    def advance(self, client: ClientSocket) -> bool:
        """Read what is here, and once tell a client to go on that waits to be told."""
        try:
            data = self._begun or client.recv(MAX_READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            raise ConnectionResetError("the client left before its request was complete")
        self._begun = b""
        self.moved += len(data)
        self.request.feed(data)
        if self.request.waits_for_continue and not self.request.whole and not self._told_to_continue:
            self._told_to_continue = True
            client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        return self.request.whole


class Sending(Phase):
    """The client takes the rest of an answer."""

    interest = selectors.EVENT_WRITE

    def __init__(self, client: ClientSocket) -> None:
        super().__init__()
        self._client = client

    @property
    def held(self) -> int:
        """What was not taken yet, but for a file, which is not in memory."""
        return len(self._client.unsent)

    def advance(self, client: ClientSocket) -> bool:
        """Send what is taken now."""
        self.moved += client.flush()
        return client.idle


class Closing(Phase):
    """The client was told the end, and hangs up: closed earlier, the kernel would take back what it has not read."""

    def __init__(self) -> None:
        super().__init__()
        self.latest = self.began + LINGER_SECONDS

    def advance(self, client: ClientSocket) -> bool:
        """Drop what is still sent, up to a limit."""
        try:
            data = client.recv(MAX_READ_BYTES)
        except BlockingIOError:
            return False
        self.moved += len(data)
        return not data or self.moved > MAX_READ_BYTES


class Connection(TConn):  # type: ignore[misc]  # gunicorn has no types
    """A connection whose requests are handed to a thread when complete; `close_later` closes it after a while."""

    def __init__(
        self, cfg: Any, raw: socket.socket, client: Any, server: Any, close_later: Callable[[Connection], None]
    ) -> None:
        super().__init__(cfg, ClientSocket(raw), client, server)
        self.data_ready = True
        self.request: bytes | bytearray = b""  # the present one, and what may have come along with it
        self.count_end: Callable[[], None] = lambda: None
        self.held = 0  # bytes of the present request or of its answer
        self.wanted: int | None = None  # the tenant whose places were all taken
        self.postponed_at = 0.0  # when its request first found no place
        self.begin()
        self._close_later = close_later

    def begin(self) -> None:
        """Have gunicorn parse the present request, from its first byte on."""
        self.wanted = None
        self.parser = http.get_parser(self.cfg, (), self.client)
        self.parser.unreader = Received()
        self.parser.unreader.unread(self.request)

    def end(self) -> bytes:
        """Forget the present request; returns what came along with it."""
        self.request, self.postponed_at, self.sock.patient = b"", 0.0, True
        return bytes(self.parser.unreader.take_buffered())

    @property
    def cut(self) -> bool:
        """Whether more was read than had arrived, as of a body that was refused by its length."""
        return bool(self.parser.unreader.cut)

    def close(self, graceful: bool = False) -> None:  # noqa: FBT001, FBT002 - gunicorn's own signature
        """Close it at once, or so that the client can read its answer."""
        self.count_end()
        self.count_end = lambda: None
        if graceful:
            self._close_later(self)
        else:
            self.sock.close()


def refusal(status: int, reason: str) -> bytes:
    """Return the whole answer that refuses what never becomes a request."""
    body = json.dumps({"type": "about:blank", "title": reason, "status": status}).encode()
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: application/problem+json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body
