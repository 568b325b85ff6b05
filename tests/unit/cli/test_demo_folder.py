from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from dotenv import dotenv_values

from cli.demo.folder import DemoFolder, without_password
from turno.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

URL = "postgresql://postgres:it%27s%20secret@/turno?host=/tmp/x&port=5432"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TURNO_MASTER_KEY", "TURNO_JWT_KEY"):
        monkeypatch.delenv(name, raising=False)


def test_written_values_are_read_back_only_by_the_owner(tmp_path: Path) -> None:
    folder = DemoFolder(tmp_path)
    variables = folder.variables(os.environ, URL, 8080) | {"FAULTY": "a 'quoted' \\ thing"}
    folder.write(variables)
    folder.write(variables)
    assert dotenv_values(folder.environment_file) == variables
    assert folder.environment_file.stat().st_mode & 0o777 == 0o600


def test_the_keys_are_kept_from_one_demo_to_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = DemoFolder(tmp_path)
    first = folder.variables(os.environ, URL, 1)
    assert len(first["TURNO_MASTER_KEY"]) == 64
    assert first["TURNO_MASTER_KEY"] != first["TURNO_JWT_KEY"]
    folder.write(first)
    assert folder.variables(os.environ, URL, 2)["TURNO_MASTER_KEY"] == first["TURNO_MASTER_KEY"]
    monkeypatch.setenv("TURNO_MASTER_KEY", "one that the caller has chosen")
    assert folder.variables(os.environ, URL, 3)["TURNO_MASTER_KEY"] == "one that the caller has chosen"


def test_folder_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = DemoFolder(tmp_path / ".turno")
    for user, mode in ((1000, 0o700), (0, 0o711)):
        monkeypatch.setattr("os.geteuid", lambda user=user: user)
        folder.make()
        assert folder.path.stat().st_mode & 0o777 == mode


def test_services_learn_the_place_and_no_password(tmp_path: Path) -> None:
    variables = DemoFolder(tmp_path).variables(os.environ, URL, 8080)
    assert without_password(URL) == variables["DATABASE_URL"] == "dbname=turno host=/tmp/x port=5432"
    assert Settings.read(variables).provisioner_url == URL
