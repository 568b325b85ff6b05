"""Many readers of live streams in one thread: the arrival times of events, at minimal cost."""

from __future__ import annotations

import json
import selectors
import socket
import time
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    # A path and the headers that open it.
    Opening = tuple[str, Mapping[str, str]]

PATIENCE = 60.0
AT_ONCE = 50  # streams opened before the next are: of one tenant a hundred requests wait, and more are refused


class NotAStream(Exception):
    """The server answered with something else."""


@dataclass(slots=True)
class Reader:
    """One stream: the revisions of jobs that arrived, with their moments, and whether it is over."""

    socket: socket.socket
    buffer: bytes = b""
    ready: bool = False
    bye: str | None = None
    arrived: list[tuple[str, int, float]] = field(default_factory=list)

    def take(self, part: bytes, now: float) -> None:
        """Note what came."""
        self.buffer += part
        *frames, self.buffer = self.buffer.split(b"\n\n")
        for frame in frames:
            if frame.startswith(b"HTTP/") and b" 200 " not in frame.split(b"\r\n", 1)[0]:
                raise NotAStream(frame.decode())
            kind, _, data = frame.rpartition(b"\ndata:")
            if kind.endswith(b"event:job"):
                body: dict[str, Any] = json.loads(data)
                self.arrived.append((body["job_id"], body["revision"], now))
            elif kind.endswith(b"event:ready"):
                self.ready = True
            elif kind.endswith(b"event:bye"):
                self.bye = json.loads(data)["reason"]


class Readers:
    """Opens streams, and reads them in a separate thread until their end or `close`."""

    def __init__(self, port: int, openings: Sequence[Opening]) -> None:
        self._selector = selectors.DefaultSelector()
        self._done = Event()
        self.readers: list[Reader] = []
        self._thread = Thread(target=self._read, name="readers", daemon=True)
        self._thread.start()
        for number, (path, headers) in enumerate(openings):
            if number % AT_ONCE == 0:
                self.wait_until_ready()
            self.readers.append(self._open(port, path, headers))

    def wait_until_ready(self) -> None:
        """Return when the last of them has its first state; raises NotAStream."""
        began = time.monotonic()
        while not all(reader.ready for reader in self.readers):
            if time.monotonic() > began + PATIENCE or not self._thread.is_alive():
                raise NotAStream(f"{sum(not reader.ready for reader in self.readers)} streams have no first state")
            time.sleep(0.01)

    def wait_until_over(self, seconds: float) -> None:
        """Wait until the server has ended all of them, but not for ever."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not all(reader.bye for reader in self.readers):
            time.sleep(0.01)

    def close(self) -> None:
        """Hang up."""
        self._done.set()
        self._thread.join()
        for reader in self.readers:
            reader.socket.close()

    def _open(self, port: int, path: str, headers: Mapping[str, str]) -> Reader:
        connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{lines}\r\n".encode())
        connection.settimeout(0)
        reader = Reader(connection)
        self._selector.register(connection, selectors.EVENT_READ, reader)
        return reader

    def _read(self) -> None:
        while not self._done.is_set():
            for key, _ in self._selector.select(0.1):
                # Each is stamped when it is read: one that waits behind others has waited.
                part = key.data.socket.recv(65536)
                if part:
                    key.data.take(part, time.monotonic())
                else:
                    self._selector.unregister(key.fileobj)
