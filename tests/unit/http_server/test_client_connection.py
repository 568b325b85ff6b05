"""The check of a connection, with a transport that holds the bytes of a response."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.server import ServerState

from turno.http_server.client_connection import CHECK_SECONDS, ClientConnection, Connections
from turno.http_server.front import CLIENT_TIMEOUT_SECONDS

if TYPE_CHECKING:
    import pytest


class FakeTransport(asyncio.Transport):
    """A transport with bytes that its client has not taken."""

    aborted = False

    def __init__(self, unsent: int) -> None:
        super().__init__()
        self.unsent = unsent

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


async def application(scope: Any, receive: Any, send: Any) -> None: ...


def ends(monkeypatch: pytest.MonkeyPatch, *, unsent: int) -> list[bool]:
    """Return whether a connection has ended at its first check, after the time limit, and at the next check."""

    async def run() -> list[bool]:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "time", lambda: 5_000.0)
        config = uvicorn.Config(application, log_config=None)
        config.load()
        connection = ClientConnection(
            Connections(10, ()), config=config, server_state=ServerState(), app_state={}, _loop=loop
        )
        transport = connection.transport = FakeTransport(unsent)
        if unsent:
            connection._began = None  # the request that has this response is complete
        ended = []
        for after in (CHECK_SECONDS, CLIENT_TIMEOUT_SECONDS, CLIENT_TIMEOUT_SECONDS + CHECK_SECONDS):
            connection.check(5_000.0 + after)
            ended.append(transport.aborted)
        return ended

    return asyncio.run(run())


def test_new_client_has_its_time_to_take_a_response(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ends(monkeypatch, unsent=100_000) == [False, False, True]


def test_new_client_has_its_time_to_send_a_head(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ends(monkeypatch, unsent=0) == [False, False, True]
