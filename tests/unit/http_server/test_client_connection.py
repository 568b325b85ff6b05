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


class StalledTransport(asyncio.Transport):
    """A transport whose client has taken nothing."""

    aborted = False

    def get_write_buffer_size(self) -> int:
        return 100_000

    def abort(self) -> None:
        self.aborted = True


async def application(scope: Any, receive: Any, send: Any) -> None: ...


def test_new_client_has_its_time_to_take_a_response(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> list[bool]:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "time", lambda: 5_000.0)
        config = uvicorn.Config(application, log_config=None)
        config.load()
        connection = ClientConnection(
            Connections(10, ()), config=config, server_state=ServerState(), app_state={}, _loop=loop
        )
        transport = connection.transport = StalledTransport()
        ends = []
        for after in (CHECK_SECONDS, CLIENT_TIMEOUT_SECONDS, CLIENT_TIMEOUT_SECONDS + CHECK_SECONDS):
            connection.check(5_000.0 + after)
            ends.append(transport.aborted)
        return ends

    assert asyncio.run(run()) == [False, False, True]
