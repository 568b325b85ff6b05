"""The server that the kit starts where a project names no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from cli.servers.postgres_files import processes_in
from turno.testing import private_postgres as kit
from turno.testing.private_postgres import private_postgres
from turno.wiring import embedded_server
from turno.wiring.embedded_server import NoServer

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("namespace", [embedded_server.NAMESPACE, ("false",)], ids=["namespace", "nobody"])
def test_server_needs_password_and_leaves_nothing(namespace: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_server, "NAMESPACE", namespace)
    with private_postgres() as server:
        with psycopg.connect(server.url) as connection:
            assert connection.execute("SELECT current_setting('fsync')").fetchone() == ("off",)
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(server.url.replace(server.password, "guess"))
        data = server.folder / "data"
        assert processes_in(data)
    assert not processes_in(data)
    assert not server.folder.exists()


def test_folder_without_a_server_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PG_BIN", str(tmp_path))
    with pytest.raises(NoServer, match="PG_BIN"), private_postgres():
        pass


def test_reason_of_a_failed_start_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(kit.SETTINGS, "max_connections", "none")
    with pytest.raises(NoServer, match=r"does not start.*max_connections"), private_postgres():
        pass
