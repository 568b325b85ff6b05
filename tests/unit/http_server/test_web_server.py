"""The address and the processes of the web server."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from turno.errors import InvalidSettings
from turno.http_server.web_server import UNACKNOWLEDGED_MS, WebServer, listen
from turno.settings import Settings

if TYPE_CHECKING:
    from turno.http_server.web_server import Served


@pytest.mark.parametrize("address", ["127.0.0.1:0", "[::1]:0", "unix:web.sock"])
def test_listens_at_ipv4_ipv6_and_local_addresses(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):  # the file of a local socket outlives its server
        with listen(address) as listener, socket.socket(listener.family) as client:
            client.connect(listener.getsockname())


def test_connections_inherit_the_time_limit_for_acknowledgements() -> None:
    with listen("127.0.0.1:0") as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == UNACKNOWLEDGED_MS


def test_an_address_in_use_is_refused_by_its_setting() -> None:
    with listen("127.0.0.1:0") as taken, pytest.raises(InvalidSettings, match="TURNO_WEB_BIND="):
        listen(f"127.0.0.1:{taken.getsockname()[1]}")


def test_a_setting_that_ends_a_process_ends_the_server(capfd: pytest.CaptureFixture[str]) -> None:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)}

    def build(_settings: Settings) -> Served:
        raise InvalidSettings(["HANDLERS=faulty: unknown"])

    parent = os.getpid()
    try:
        with pytest.raises(SystemExit) as ended:
            WebServer(Settings(web_bind="127.0.0.1:0", web_workers=2), build).run()
        if os.getpid() != parent:
            os._exit(int(str(ended.value.code)))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert ended.value.code == 1
    assert "HANDLERS=faulty: unknown" in capfd.readouterr().err
