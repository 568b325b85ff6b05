from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from cli.environment import DEMO_ENVIRONMENT, read_settings

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, and an environment without settings that is put back afterwards."""
    monkeypatch.chdir(tmp_path)
    for name in ("DATABASE_URL", "ADMIN_DATABASE_URL", "MASTER_KEY", "TURNO_DOTENV"):
        # Set first, so that what the code adds to the environment is removed again.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    DEMO_ENVIRONMENT.parent.mkdir()
    return tmp_path


def test_variables_that_are_set_win_over_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "dbname=set")
    (folder / ".env").write_text("DATABASE_URL=dbname=written\nMASTER_KEY='a key'\n")
    settings = read_settings()
    assert (settings.database_url, settings.master_key) == ("dbname=set", "a key")


def test_a_running_demo_is_used_where_no_database_is_named() -> None:
    DEMO_ENVIRONMENT.write_text("DATABASE_URL='dbname=demo host=/tmp'\nMASTER_KEY='the demo'\\''s'\n")
    assert read_settings().database_url == "dbname=demo host=/tmp"


def test_a_demo_s_keys_are_not_used_for_another_database(monkeypatch: pytest.MonkeyPatch) -> None:
    DEMO_ENVIRONMENT.write_text(
        "DATABASE_URL='dbname=demo'\nMASTER_KEY=demo\nADMIN_DATABASE_URL='dbname=demo user=x'\n"
    )
    monkeypatch.setenv("DATABASE_URL", "dbname=other")
    assert read_settings().master_key == ""
    monkeypatch.setenv("DATABASE_URL", "dbname=demo user=x")
    assert read_settings().master_key == "demo"


def test_a_spawned_worker_reads_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNO_DOTENV", "read")
    (folder / ".env").write_text("DATABASE_URL=dbname=written\n")
    assert read_settings().database_url == ""


def test_the_provisioner_s_password_is_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "dbname=x")
    assert read_settings().provisioner_url == "dbname=x"
    monkeypatch.setenv("ADMIN_DATABASE_URL", "dbname=x user=admin password=secret")
    assert read_settings().provisioner_url == "dbname=x user=admin password=secret"
    assert "ADMIN_DATABASE_URL" not in os.environ
