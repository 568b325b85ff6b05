"""Clients that cost next to nothing themselves: keep-alive sockets, requests written out beforehand."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    # Makes the next request: its headers by name, and its body.
    Request = tuple[dict[str, str], bytes]
    NextRequest = Callable[[], Request]


class Refused(Exception):
    """The server answered with another status than was expected."""


class Answer(NamedTuple):
    """The server's answer and its milliseconds; status 0 means no answer, with the reason in `body`."""

    status: int
    head: str
    body: bytes
    took: float


class Client:
    """A keep-alive connection that requests a path."""

    def __init__(self, port: int, path: str, *, method: str = "POST", expected: int = 202, timeout: float = 30) -> None:
        self._expected = f"HTTP/1.1 {expected} ".encode()
        self._start = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def post(self, headers: dict[str, str], body: bytes) -> float:
        """Ask and return the milliseconds to the last byte of the answer; raises Refused if it is not as expected."""
        answer, took = self._exchange(headers, body)
        if not answer.startswith(self._expected):
            raise Refused(answer.decode())
        return took

    def ask(self, headers: dict[str, str], body: bytes) -> Answer:
        """Send the request and return the answer of any status."""
        answer, took = self._exchange(headers, body)
        head, _, content = answer.partition(b"\r\n\r\n")
        return Answer(int(head.split(b" ", 2)[1]), head.decode("latin-1"), content, took)

    def _exchange(self, headers: dict[str, str], body: bytes) -> tuple[bytes, float]:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        request = f"{self._start}{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body
        start = time.perf_counter()
        self._socket.sendall(request)
        answer = self._receive()
        return answer, (time.perf_counter() - start) * 1000

    def _receive(self) -> bytes:
        answer = b""
        while (end := answer.find(b"\r\n\r\n")) < 0 or len(answer) < end + 4 + body_length(answer[:end]):
            part = self._socket.recv(65536)
            if not part:
                raise Refused("the server closed the connection")
            answer += part
        return answer


def ask(port: int, method: str, path: str, headers: dict[str, str], body: bytes = b"", *, timeout: float) -> Answer:
    """Send one request over a new connection; a client without an answer reports the reason and stops."""
    begin = time.perf_counter()
    try:
        with Client(port, path, method=method, timeout=timeout) as client:
            return client.ask(headers, body)
    except (OSError, Refused) as error:
        return Answer(0, "", str(error or "the connection was lost").encode(), (time.perf_counter() - begin) * 1000)


def body_length(head: bytes) -> int:
    """Return the length that an answer's head announces."""
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


def crowd(port: int, path: str, requests: NextRequest, *, clients: int, seconds: float) -> list[float]:
    """POST requests from `n` clients in sequence for a time; return every request's milliseconds."""
    end = time.perf_counter() + seconds

    def post_until_end() -> list[float]:
        took = []
        with Client(port, path) as client:
            while time.perf_counter() < end:
                took.append(client.post(*requests()))
        return took

    with ThreadPoolExecutor(clients) as threads:
        futures = [threads.submit(post_until_end) for _ in range(clients)]
        return [sample for future in futures for sample in future.result()]


def steady(port: int, path: str, requests: NextRequest, *, every: float, times: int) -> list[float]:
    """POST at fixed moments, independent of earlier answers; each waits from its own moment on."""
    begin = time.perf_counter()
    with ThreadPoolExecutor(8) as threads:
        futures = []
        for number in range(times):
            time.sleep(max(0.0, begin + number * every - time.perf_counter()))
            futures.append(threads.submit(_once, port, path, requests))
        return [future.result() for future in futures]


def _once(port: int, path: str, requests: NextRequest) -> float:
    with Client(port, path) as client:
        return client.post(*requests())
