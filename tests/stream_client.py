"""A client of live streams that is nothing but a socket, so that it can be as rude as a test needs it to be."""

from __future__ import annotations

import json
import socket
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType


class StreamClient:
    """One GET, and the events of its answer, with `status` and `headers`."""

    def __init__(
        self,
        port: int,
        path: str,
        headers: Mapping[str, str] | None = None,
        *,
        method: str = "GET",
    ) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        lines = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        self.socket.sendall(f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{lines}\r\n".encode())
        self._unread = b""
        self._undecoded: bytes | None = None
        self.comments = 0
        self.retry: int | None = None
        head = self._until(b"\r\n\r\n")
        first, *header_lines = head.decode("latin-1").split("\r\n")
        self.status = int(first.split()[1])
        self.headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in header_lines)
        }
        if self.headers.get("transfer-encoding") == "chunked":
            self._undecoded, self._unread = self._unread, b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def body(self) -> bytes:
        """Everything up to the end of the connection, for answers that are no streams."""
        while part := self._receive():
            self._unread += part
        return self._unread

    def event(self, *, within: float = 60.0) -> tuple[str, Any] | None:
        """The next event's type and data; None at the end of the stream. Raises TimeoutError."""
        end = monotonic() + within
        while True:
            self.socket.settimeout(max(0.001, end - monotonic()))
            try:
                frame = self._until(b"\n\n").decode("ascii")
            except EOFError:
                return None
            fields = dict(line.split(":", 1) for line in frame.split("\n"))
            if "data" in fields:
                return fields.get("event", "message"), json.loads(fields["data"])
            if "retry" in fields:
                self.retry = int(fields["retry"])
            self.comments += "" in fields

    def until(self, kind: str, matches: Callable[[Any], bool] = lambda _data: True, *, within: float = 60.0) -> Any:
        """The data of the first event of this type that matches; earlier events are skipped."""
        end = monotonic() + within
        while event := self.event(within=end - monotonic()):
            if event[0] == kind and matches(event[1]):
                return event[1]
        raise AssertionError(f"the stream ended without the {kind}")

    def first_state(self) -> list[tuple[str, Any]]:
        """All events before `ready`."""
        result = []
        while (event := self.event()) and event[0] != "ready":
            result.append(event)
        assert event is not None, "the stream ended before its first state was complete"
        return result

    def remaining_events(self) -> list[tuple[str, Any]]:
        """All events to the end."""
        result = []
        while event := self.event():
            result.append(event)
        return result

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._unread:
            part = self._receive()
            if not part:
                raise EOFError
            self._unread += part
        result, _, self._unread = self._unread.partition(mark)
        return result

    def _receive(self) -> bytes:
        """The next bytes of the body; none at its end."""
        if self._undecoded is None:
            return self.socket.recv(65536)
        while True:
            size, result, remainder = self._undecoded.partition(b"\r\n")
            if result and len(remainder) >= (length := int(size, 16)) + 2:
                self._undecoded = remainder[length + 2 :]
                return remainder[:length]
            part = self.socket.recv(65536)
            if not part:
                return b""
            self._undecoded += part
