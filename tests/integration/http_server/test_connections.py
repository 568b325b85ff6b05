"""Traffic over one connection to the real server: several requests, bodies of every kind, none taken for another."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.capabilities.streams.test_streams import headers_of, web_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cli.demo.web import DemoWeb
    from tests.installation import ExampleInstallation

LIMIT = 20_000
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
BODY = b'{"payload": {"order_ids": [1]}}'


@pytest.fixture(scope="module")
def web(module_example: ExampleInstallation) -> Iterator[DemoWeb]:
    with web_of(module_example, TURNO_LIMITS=f"body_bytes={LIMIT}") as running:
        yield running


def post(example: ExampleInstallation, *more: str, path: str = "/api/jobs/batch_invoicing") -> bytes:
    headers = headers_of(example) | {"Content-Type": "application/json"}
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", *(f"{name}: {text}" for name, text in headers.items()), *more]
    return "\r\n".join([*lines, "", ""]).encode()


def chunks(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


class Client:
    """A socket, and the answers that come over it."""

    def __init__(self, web: DemoWeb) -> None:
        self.socket = socket.create_connection(("127.0.0.1", web.port), timeout=15)
        self._file = self.socket.makefile("rb")

    def send(self, *parts: bytes) -> None:
        for part in parts:
            self.socket.sendall(part)

    def status(self) -> int | None:
        """The next answer's status, once all of the answer is here; None at the end of the connection."""
        try:
            first = self._file.readline()
        except ConnectionResetError:
            return None
        if not first:
            return None
        headers = {}
        while line := self._file.readline().strip():
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        self._file.read(int(headers.get(b"content-length", 0)))
        return int(first.split()[1])


@pytest.fixture
def client(web: DemoWeb) -> Iterator[Client]:
    made = Client(web)
    yield made
    made._file.close()
    made.socket.close()


def test_requests_that_come_together_are_answered_in_order(example: ExampleInstallation, client: Client) -> None:
    submit = post(example, f"Content-Length: {len(BODY)}") + BODY
    client.send(HEALTH + submit + HEALTH + HEALTH[:10], HEALTH[10:])
    assert [client.status() for _ in range(4)] == [200, 202, 200, 200]


def test_a_body_may_come_in_pieces(example: ExampleInstallation, client: Client) -> None:
    for head, body in (
        (post(example, f"Content-Length: {len(BODY)}"), BODY),
        (post(example, "Transfer-Encoding: chunked"), chunks(BODY[:5], BODY[5:])),
    ):
        client.send(head[:50], head[50:], body[:3], body[3:10], body[10:])
        assert client.status() == 202
    client.send(HEALTH)
    assert client.status() == 200


def test_expect_continue_is_answered(example: ExampleInstallation, client: Client) -> None:
    client.send(post(example, f"Content-Length: {len(BODY)}", "Expect: 100-continue"))
    assert client.status() == 100
    client.send(BODY)
    while (status := client.status()) == 100:
        pass
    assert status == 202


def test_unread_body_is_not_the_next_request(example: ExampleInstallation, client: Client) -> None:
    client.send(post(example, f"Content-Length: {len(HEALTH)}", path="/api/jobs/unknown") + HEALTH)
    client.send(post(example, "Transfer-Encoding: chunked", path="/api/jobs/unknown") + chunks(HEALTH))
    client.send(HEALTH)
    assert [client.status() for _ in range(3)] == [422, 422, 200]


@pytest.mark.parametrize("path", ["/api/jobs/batch_invoicing", "/api/jobs/unknown", "/nowhere"])
def test_oversized_body_is_never_taken_for_a_request(example: ExampleInstallation, client: Client, path: str) -> None:
    refused = {"/nowhere": 404, "/api/jobs/unknown": 422}.get(path, 413)
    client.send(post(example, f"Content-Length: {LIMIT + 1}", path=path) + HEALTH)
    assert client.status() == refused
    with suppress(OSError):
        client.send(HEALTH * (LIMIT // len(HEALTH)))
    assert client.status() is None


def test_a_large_body_in_chunks_is_refused(example: ExampleInstallation, client: Client) -> None:
    client.send(post(example, "Transfer-Encoding: chunked") + b"%x\r\n" % (10 * LIMIT) + b" " * (LIMIT + 1))
    assert [client.status(), client.status()] == [413, None]


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (["Content-Length: 5", "Content-Length: 6"], b""),
        (["Content-Length: 5", "Transfer-Encoding: chunked"], b"0\r\n\r\n"),
        (["Content-Length: x"], b""),
        (["Content-Length : 49"], b""),
        (["Transfer-Encoding: chunked"], b"zz\r\n"),
        (["Transfer-Encoding: chunked, gzip"], b"0\r\n\r\n"),
        (["X: " + "y" * 100_000], b""),
    ],
    ids=lambda part: str(part)[:40],
)
def test_malformed_request_is_refused_and_disconnected(
    example: ExampleInstallation, client: Client, head: list[str], body: bytes
) -> None:
    client.send(post(example, *head) + body + HEALTH)
    status = client.status()
    assert status is not None
    assert 400 <= status < 502
    assert client.status() is None


@pytest.mark.parametrize("end", [b"\r\n\r\n", b"\0"], ids=["complete", "invalid"])
def test_head_above_its_limit_is_refused_by_its_size(client: Client, end: bytes) -> None:
    client.send(HEALTH[:-2] + b"X: " + b"y" * 100_000 + end)
    assert [client.status(), client.status()] == [431, None]


def test_line_end_does_not_keep_a_connection_open(client: Client) -> None:
    client.send(HEALTH)
    assert client.status() == 200
    client.send(b"\r\n")
    assert [client.status(), client.status()] == [408, None]


@pytest.mark.parametrize("body", [b"zz\r\n", b"2\r\n{}}}\r\n0\r\n\r\n"], ids=["size", "terminator"])
def test_request_with_a_broken_chunk_gets_one_response(
    example: ExampleInstallation, client: Client, body: bytes
) -> None:
    client.send(post(example, "Transfer-Encoding: chunked", path="/api/jobs/unknown") + body)
    assert client.status() is not None
    assert client.status() is None


def test_broken_request_answers_no_request_before_it(example: ExampleInstallation, client: Client) -> None:
    complete = post(example, f"Content-Length: {len(BODY)}") + BODY
    client.send(complete + post(example, "Transfer-Encoding: chunked", path="/api/jobs/unknown") + b"zz\r\n")
    assert [client.status(), client.status()] == [202, None]
