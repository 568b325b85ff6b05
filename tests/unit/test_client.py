"""The client against a server with prepared answers: its retries, and its errors."""

from __future__ import annotations

import json
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from turno.client import Client, NotEnded, Refused, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

ID = "0192d3a4-5b6c-7d8e-9f01-23456789abcd"
OPEN = {"job_id": ID, "status": "running", "label": "running", "revision": 3, "result": None}
ENDED = OPEN | {"status": "completed", "label": "done", "revision": 9, "result": {"lines": 4}}
BUSY = (503, {"Retry-After": "0"}, {"type": "/docs#tenant-busy", "detail": "Send it again."})
ACCEPTED: tuple[int, dict[str, str], dict[str, str]] = (202, {}, {"status": "accepted", "job_id": ID})
SILENCE = None


class Server(ThreadingHTTPServer):
    """Gives the next answer of a list to each request, and keeps the requests."""

    def __init__(self, *answers: Any) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = deque(answers)
        self.requested: list[tuple[str, str, dict[str, str], bytes]] = []


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        self.server.requested.append((self.command, self.path, dict(self.headers), self.rfile.read(length)))
        answer = self.server.answers.popleft()
        if answer is SILENCE:
            return  # hangs up without a word
        status, headers, body = answer
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(sent)

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 - names of the standard library

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    made: list[Server] = []
    yield made
    for server in made:
        server.shutdown()
        server.server_close()


@pytest.fixture
def say(servers: list[Server], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("turno.client.FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr("turno.client.RECONNECT_SECONDS", 0.001)

    def started(*answers: Any, **options: Any) -> tuple[Client, Server]:
        server = Server(*answers)
        servers.append(server)
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/erp/"
        return Client(url, tenant="suc0001", token=lambda: "fresh", **options), server

    return started


def events(*reply: Any, end: bytes = b"") -> tuple[int, dict[str, str], bytes]:
    frames = b"".join(b"event:job\ndata:%s\n\n" % json.dumps(body).encode() for body in reply)
    return 200, {"Content-Type": "text/event-stream"}, b"retry: 1\n\n: still here\n\n" + frames + end


def test_limits_and_broken_links_are_retried_with_one_key(say: Any) -> None:
    client, server = say(SILENCE, BUSY, (429, {}, {}), (502, {}, b"<html>"), ACCEPTED)
    job = client.submit("greetings", {"a": 1})
    assert (job.id, job.status, job.ended) == (ID, "accepted", False)
    assert {path for _, path, _, _ in server.requested} == {"/erp/api/jobs/greetings"}
    assert len(server.requested) == 5
    assert len({headers["Idempotency-Key"] for _, _, headers, _ in server.requested}) == 1
    assert {(headers["Authorization"], headers["X-Schema"]) for _, _, headers, _ in server.requested} == {
        ("Bearer fresh", "suc0001")
    }
    assert json.loads(server.requested[-1][3]) == {"payload": {"a": 1}, "priority": "normal"}


def test_two_calls_without_a_key_are_two_jobs(say: Any) -> None:
    client, server = say(ACCEPTED, ACCEPTED)
    client.submit("greetings", {})
    client.submit("greetings", {})
    assert len({headers["Idempotency-Key"] for _, _, headers, _ in server.requested}) == 2


def test_refusal_lists_fields_and_is_not_sent_again(say: Any) -> None:
    problem = {"type": "/docs#invalid-request", "title": "The request is not valid", "status": 400,
               "detail": "Nothing was done.", "instance": "urn:uuid:1",
               "errors": [{"field": "wait", "problem": "no"}]}  # fmt: skip
    client, server = say((400, {}, problem))
    with pytest.raises(Refused) as refused:
        client.submit("greetings", {}, wait=9)
    error = refused.value
    assert (error.status, error.kind) == (400, "invalid-request")
    assert (error.title, error.detail) == (problem["title"], problem["detail"])
    assert (error.instance, error.errors) == ("urn:uuid:1", problem["errors"])
    assert [path for _, path, _, _ in server.requested] == ["/erp/api/jobs/greetings?wait=9"]


def test_patience_ends_and_a_longer_rest_than_it_is_not_slept(say: Any) -> None:
    client, server = say((503, {"Retry-After": "3600"}, {"detail": "The database is away."}))
    with pytest.raises(Unavailable, match="The database is away") as gone:
        client.get(ID)
    assert (gone.value.status, gone.value.retry_after, len(server.requested)) == (503, 3600.0, 1)


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(Unavailable):
        Client("http://127.0.0.1:9", tenant="a", token="t", patience=0).get(ID)
    with pytest.raises(ValueError, match=r"https://turno\.example"):
        Client("ftp://127.0.0.1", tenant="a", token="t")


def test_a_wait_ends_with_the_job_or_with_its_time(say: Any) -> None:
    client, server = say((200, {"Retry-After": "0"}, OPEN), (200, {}, ENDED))
    assert client.wait(ID, timeout=20).result == {"lines": 4}
    assert "?wait=" in server.requested[0][1]
    client, _ = say((200, {"Retry-After": "2"}, OPEN))
    with pytest.raises(NotEnded) as late:
        client.wait(ID, timeout=0)
    assert late.value.job.status == "running"


def test_broken_stream_reconnects_without_repeated_states(say: Any) -> None:
    later = OPEN | {"revision": 5}
    client, server = say(
        events(OPEN, later, end=b"event:job\ndata:{"),  # broken off in the middle of an event
        (200, {}, later),
        SILENCE,
        (200, {}, later),
        events(OPEN, later, OPEN | {"revision": 6}, ENDED, end=b'event:bye\ndata:{"reason": "job-ended"}\n\n'),
        (200, {}, ENDED),
    )
    assert [(job.revision, job.status) for job in client.follow(ID)] == [
        (3, "running"), (5, "running"), (6, "running"), (9, "completed"),
    ]  # fmt: skip
    assert [path.endswith("/stream") for _, path, _, _ in server.requested] == [True, False] * 3


def test_client_polls_the_job_without_a_stream(say: Any) -> None:
    full = (429, {"Retry-After": "0"}, {"type": "/docs#too-many-streams", "detail": "Poll."})
    client, _ = say(full, (200, {}, OPEN), full, (200, {}, ENDED))
    assert [job.revision for job in client.follow(ID)] == [3, 9]


def test_a_list_is_read_page_by_page(say: Any) -> None:
    pages = ({"jobs": [OPEN], "next_cursor": "c1"}, {"jobs": [ENDED], "next_cursor": None})
    client, server = say(*((200, {}, page) for page in pages))
    assert [job.status for job in client.jobs(status="any thing", limit=1)] == ["running", "completed"]
    assert [path for _, path, _, _ in server.requested] == [
        "/erp/api/jobs?status=any+thing&limit=1", "/erp/api/jobs?status=any+thing&limit=1&cursor=c1"
    ]  # fmt: skip


def test_a_file_is_sent_in_pieces_of_the_server_s_size(say: Any) -> None:
    received: tuple[int, dict[str, str], Any] = (200, {}, {"received": 1})
    client, server = say((201, {}, {"file_id": ID, "piece_bytes": 4}), received, BUSY, received, received)
    assert client.upload("orders.csv", b"0123456789") == ID
    assert json.loads(server.requested[0][3]) == {"name": "orders.csv", "size": 10}
    assert [(path.rpartition("/")[2], body) for _, path, _, body in server.requested[1:]] == [
        ("0", b"0123"), ("1", b"4567"), ("1", b"4567"), ("2", b"89")
    ]  # fmt: skip
    assert {headers["Content-Type"] for _, _, headers, _ in server.requested[1:]} == {"application/octet-stream"}


def test_an_answer_without_content_is_an_empty_object(say: Any) -> None:
    client, server = say((204, {}, b""))
    assert client.request("DELETE", "/api/schedules/a") == {}
    client, server = say((204, {}, b""))
    client.remove_schedule("every/night")
    assert [request[:2] for request in server.requested] == [("DELETE", "/erp/api/schedules/every%2Fnight")]
