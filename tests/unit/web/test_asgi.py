"""Turno as an ASGI application: its users, its limits, and the end of its responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from time import sleep
from typing import TYPE_CHECKING, Any

import pytest
from flask import Flask, Response, request

from turno import Principal, TurnoASGI
from turno.http_server import front
from turno.http_server.front import PART_BYTES, WsgiResponse
from turno.settings import Limits, Settings
from turno.wiring.mounted import PRINCIPAL

if TYPE_CHECKING:
    from turno.http_server.front import Message, Scope

SCOPE = {
    "type": "http",
    "http_version": "1.1",
    "method": "POST",
    "scheme": "http",
    "path": "/work/jobs/é",
    "root_path": "/work/jobs",
    "query_string": b"",
    "headers": [(b"host", b"erp.example"), (b"transfer-encoding", b"chunked")],
    "server": ("127.0.0.1", 80),
    "client": ("127.0.0.1", 1234),
}
SETTINGS = Settings(limits=Limits(body_bytes=2048), web_threads=2)
LEFT = {"type": "http.disconnect"}


async def ana(scope: Scope) -> Principal | None:
    """Ana is signed in everywhere."""
    return Principal(user=f"ana at {scope['path']}", tenants=["north"])


async def refused(_scope: Scope) -> Principal | None:
    """Nobody may come in."""
    raise PermissionError


class Mounted(TurnoASGI):
    """The object around another application of Flask."""

    def __init__(self, view: Callable[[], Any], principal: Callable[[Scope], Any] = ana) -> None:
        super().__init__(principal=principal, settings=SETTINGS)
        self.view = view
        self.roots: list[str] = []

    def _built(self, root: str) -> Flask:
        self.roots.append(root)
        app = Flask("tests")
        app.config["MAX_CONTENT_LENGTH"] = SETTINGS.limits.body_bytes
        app.add_url_rule("/é", view_func=self.view, methods=["POST"])
        return app


class Exchange:
    """One request: the messages that the server gives and gets; after three the client leaves."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self.given = list(messages)
        self.sent: list[Message] = []
        self.left = asyncio.Event()

    async def receive(self) -> Message:
        if self.given:
            return self.given.pop(0)
        await self.left.wait()
        return LEFT

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        if len(self.sent) == 3:
            self.left.set()

    @property
    def text(self) -> str:
        return b"".join(message.get("body", b"") for message in self.sent).decode()


def exchange(app: TurnoASGI, *messages: dict[str, Any], **scope: Any) -> Exchange:
    async def serve() -> Exchange:
        result = Exchange(*messages)
        async with asyncio.timeout(5):
            await app(SCOPE | scope, result.receive, result.send)
        return result

    return asyncio.run(serve())


def body(*parts: bytes) -> list[dict[str, Any]]:
    return [{"type": "http.request", "body": part, "more_body": True} for part in parts] + [{"type": "http.request"}]


class Endless:
    """A body that threads read; it is closed after a read, not within."""

    reading = closed = False

    def __iter__(self) -> Iterator[bytes]:
        while True:
            self.reading = True
            sleep(0.01)
            self.reading = False
            yield b"x" * 300_000

    def close(self) -> None:
        assert not self.reading
        self.closed = True


class Live(Endless):
    """A body that the event loop reads."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"x"
        yield b"x"
        await asyncio.Event().wait()


def test_a_request_has_the_path_and_the_user_of_its_scope() -> None:
    def view() -> str:
        return f"{request.script_root} {request.path} {request.environ[PRINCIPAL].user} {request.get_data().decode()}"

    app = Mounted(view)
    assert app.roots == [], "an import builds nothing"
    for _ in range(2):
        assert exchange(app, *body(b"on", b"e")).text == "/work/jobs /é ana at /work/jobs/é one"
    assert app.roots == ["/work/jobs"]


def test_an_error_of_the_principal_is_the_application_s() -> None:
    with pytest.raises(PermissionError):
        exchange(Mounted(lambda: "", refused), *body())


def test_a_body_beyond_the_limit_is_not_read_to_its_end() -> None:
    app = Mounted(lambda: str(len(request.environ["wsgi.input"].read())))
    assert exchange(app, *body(*[b"x" * 1000] * 9)).text == "3000"


def test_a_client_that_leaves_within_its_body_gets_no_response() -> None:
    assert exchange(Mounted(lambda: ""), body(b"x")[0], LEFT).sent == []


def test_a_slow_body_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "CLIENT_TIMEOUT_SECONDS", 0.1)
    app = Mounted(lambda: pytest.fail("the request is not complete"))
    assert exchange(app, body(b"x")[0]).sent[0]["status"] == 408


def test_time_limit_of_a_body_ends_with_its_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "CLIENT_TIMEOUT_SECONDS", 0.1)

    def view() -> tuple[str, int]:
        sleep(0.3)
        return "too large", 413

    assert exchange(Mounted(view), body(b"x" * 3000)[0]).sent[0]["status"] == 413


@pytest.mark.parametrize("kind", [Endless, Live])
def test_a_response_ends_when_its_client_leaves(kind: type[Endless]) -> None:
    parts: Any = kind()
    exchange(Mounted(lambda: Response(parts, direct_passthrough=True)), *body())
    assert parts.closed


def test_body_is_closed_after_the_read_of_another_thread() -> None:
    begun, goes_on, ended = Event(), Event(), Event()

    class Slow:
        """Its first part is read at once; the second while `close` is called."""

        def __iter__(self) -> Iterator[bytes]:
            yield b"x" * PART_BYTES
            begun.set()
            assert goes_on.wait(60)

        def close(self) -> None:
            ended.set()

    response = WsgiResponse(lambda *_: Slow(), {})
    with ThreadPoolExecutor(2) as threads:
        reader = threads.submit(response.read)
        assert begun.wait(60)
        threads.submit(response.close)
        closed_within = ended.wait(0.5)
        goes_on.set()
        reader.result(60)
    assert not closed_within
    assert ended.is_set()


def test_wrong_handlers_open_no_connection(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("turno.wiring.web.web_pool", lambda _settings: pytest.fail("a pool is open"))
    app = TurnoASGI(principal=ana, settings=Settings(handlers="nowhere:HANDLERS", web_threads=2))
    assert exchange(app, *body()).sent[0]["status"] == 500
    assert "TURNO_HANDLERS=nowhere:HANDLERS" in caplog.text


def test_a_websocket_is_refused() -> None:
    assert exchange(Mounted(lambda: ""), type="websocket").sent == [{"type": "websocket.close"}]
