"""Clients that send or read slowly, or never hang up: they cost the web no thread, and each comes to an end."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from statistics import median
from time import monotonic, sleep
from typing import TYPE_CHECKING

import pytest

from tests.capabilities.streams.test_faults import resident_kb
from tests.capabilities.streams.test_streams import ask, headers_of, web_of
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cli.demo.web import DemoWeb
    from tests.installation import ExampleInstallation

THREADS = 16  # of the web
EACH = 20  # sockets of a kind
ANSWERED = "never hangs up"
MOST_CONNECTIONS = THREADS + 500
OTHER = ("127.0.0.2", 0)  # an address that is no trusted proxy
ANSWERS_UNREAD = 50  # of 370 KB each: more than the kernel keeps for a reader


class Slow:
    """A client that sends its beginning at once, and then a byte at each call; without `reads`, a line break."""

    def __init__(self, web: DemoWeb, beginning: bytes, *, reads: bool = True) -> None:
        self.socket = socket.socket()
        if not reads:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.connect(("127.0.0.1", web.port))
        self.socket.sendall(beginning)
        self.socket.settimeout(0)
        self.reads = reads
        self.answer = b""
        self.ended = False

    def go_on(self) -> None:
        try:
            if not self.ended:
                # A reader of nothing sends no further request: an invalid request would end its connection.
                self.socket.send(b"x" if self.reads else b"\n")
            if self.reads:
                self.read()
        except BlockingIOError:
            pass
        except OSError:
            self.ended = True

    def read(self) -> None:
        while part := self.socket.recv(65536):
            self.answer += part
        self.ended = True


def head(method: str, path: str, headers: dict[str, str]) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *(f"{name}: {text}" for name, text in headers.items())]
    return "\r\n".join([*lines, ""]).encode()


def slow_kinds(example: ExampleInstallation) -> dict[str, Callable[[DemoWeb], Slow]]:
    json_body = headers_of(example) | {"Content-Type": "application/json"}
    form = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
    sign_in = head("POST", "/sign-in", form | {"Content-Length": "1000"})
    submit = head("POST", "/api/jobs/batch_invoicing", json_body | {"Content-Length": "1000"})
    chunked = head("POST", "/api/jobs/batch_invoicing", json_body | {"Transfer-Encoding": "chunked"})
    # A large response that needs no database: the kernel would keep a short refusal for the reader.
    asking = head("GET", "/openapi.json", {}) + b"\r\n"
    closing = head("GET", "/healthz", {"Connection": "close"}) + b"\r\n"
    return {
        "half a head": lambda web: Slow(web, head("GET", "/healthz", {})),
        "half a form": lambda web: Slow(web, sign_in + b"\r\ntoken="),
        "half a body": lambda web: Slow(web, submit + b'\r\n{"payload": '),
        "half a chunk": lambda web: Slow(web, chunked + b"\r\n3e8\r\n{"),
        "reads nothing": lambda web: Slow(web, asking * ANSWERS_UNREAD, reads=False),
        ANSWERED: lambda web: Slow(web, closing),
    }


@pytest.fixture
def web(example: ExampleInstallation) -> Iterator[DemoWeb]:
    with web_of(example) as running:
        yield running


def answers(web: DemoWeb) -> bool:
    """Return whether another client's request is answered; it waits for as long as `ask` does."""
    status, _ = ask(web, "GET", "/healthz", {})
    return status == 200


def test_slow_clients_hold_no_thread_and_are_ended(example: ExampleInstallation, web: DemoWeb) -> None:
    clients = {kind: [begin(web) for _ in range(EACH)] for kind, begin in slow_kinds(example).items()}
    everybody = [client for some in clients.values() for client in some]
    beside = 0  # how many slow clients of each kind there still were when another was answered

    def all_ended() -> bool:
        nonlocal beside
        assert answers(web)
        for client in everybody:
            client.go_on()
        open_now = [sum(not client.ended for client in some) for kind, some in clients.items() if kind != ANSWERED]
        beside = max(beside, min(open_now))
        return all(client.ended for client in everybody)

    with ExitStack() as stack:
        for client in everybody:
            stack.enter_context(client.socket)
        assert wait_until(all_ended, within=40, every=0.25)
        assert beside > THREADS
        status = {kind: {client.answer[9:12] for client in some} for kind, some in clients.items()}
        assert status.pop("reads nothing") == {b""}
        assert status.pop(ANSWERED) == {b"200"}
        assert set().union(*status.values()) == {b"408"}


def test_buffers_for_slow_clients_are_bounded(web: DemoWeb) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded", "Content-Length": "1000000"}
    almost = head("POST", "/sign-in", form) + b"\r\n" + b"x" * 999_999
    before = resident_kb(web)
    with ExitStack() as stack:
        for _ in range(200):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", web.port)))
            client.settimeout(10)
            try:
                client.sendall(almost)
            except OSError:
                continue  # given up already
        assert answers(web)
        assert resident_kb(web) - before < 120_000


def test_a_client_finds_room_beside_any_number_of_slow_ones(web: DemoWeb) -> None:
    with ExitStack() as stack:
        slow = []
        for _ in range(700):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", web.port)))
            client.sendall(b"GET /healthz HTTP/1.1\r\n")
            slow.append(client)
        assert answers(web)
        # The web closes only the connections above the maximum, without a wait for the time limit of slow clients.
        assert MOST_CONNECTIONS / 2 < sum(map(is_open, slow)) <= MOST_CONNECTIONS
        newest = stack.enter_context(socket.create_connection(("127.0.0.1", web.port)))
        newest.settimeout(20)
        newest.sendall(head("GET", "/healthz", {"Connection": "close"}) + b"\r\n")
        assert newest.recv(12) == b"HTTP/1.1 200"


def test_one_address_has_half_of_the_connections(web: DemoWeb) -> None:
    with ExitStack() as stack:
        # From a trusted proxy; the oldest connection, which would make room for others.
        first = stack.enter_context(socket.create_connection(("127.0.0.1", web.port)))
        first.sendall(b"GET /healthz HTTP/1.1\r\n")
        many = []
        for _ in range(700):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", web.port), source_address=OTHER))
            client.settimeout(5)
            many.append(client)
        assert answers(web)
        assert sum(map(is_open, many)) <= MOST_CONNECTIONS / 2
        assert is_open(first)
        for client in many:
            client.close()
        assert wait_until(lambda: answers_to(web, OTHER), within=20)


def test_a_flood_of_dropped_connections_delays_no_probe(web: DemoWeb) -> None:
    over = threading.Event()

    def flood() -> None:
        while not over.is_set():
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", web.port), timeout=1, source_address=OTHER).close()

    took = []
    with ThreadPoolExecutor(4) as pool:
        floods = [pool.submit(flood) for _ in range(4)]
        for _ in range(60):
            began = monotonic()
            assert answers(web)
            took.append(monotonic() - began)
            sleep(0.05)
        over.set()
        for each in floods:
            each.result()
    assert median(took) < 0.5
    assert max(took) < 4.0


def answers_to(web: DemoWeb, source: tuple[str, int]) -> bool:
    """Return whether a request from this address is answered."""
    try:
        with socket.create_connection(("127.0.0.1", web.port), timeout=5, source_address=source) as client:
            client.sendall(head("GET", "/healthz", {"Connection": "close"}) + b"\r\n")
            return client.recv(12) == b"HTTP/1.1 200"
    except OSError:
        return False


def is_open(client: socket.socket) -> bool:
    """Say whether the web has neither answered this client nor closed its connection."""
    client.settimeout(0)
    try:
        client.recv(1)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False
