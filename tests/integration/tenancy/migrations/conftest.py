"""Installations with three tenants: with migrations of their own, and with the packaged ones."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.integration.tenancy.migrations.place import KEY, PACKAGED, Place, set_up
from turno.tenancy.identity.logins import Logins


@pytest.fixture
def packaged(database: str) -> Iterator[Place]:
    """The steps as they are packaged."""
    with psycopg.connect(database, autocommit=True) as admin:
        place = Place(database, PACKAGED, Logins(database, KEY), admin, [])
        set_up(place)
        yield place


@pytest.fixture
def place(database: str, tmp_path: Path) -> Iterator[Place]:
    for room in ("tenant", "control"):
        shutil.copytree(PACKAGED / room / "functions", tmp_path / room / "functions")
        (tmp_path / room / "schema").mkdir()
        # All that is packaged as one first step, however many files it has by now.
        ups = [
            file for file in sorted((PACKAGED / room / "schema").glob("*.sql")) if not file.name.endswith(".down.sql")
        ]
        whole = "\n".join(file.read_text(encoding="utf-8") for file in ups)
        (tmp_path / room / "schema" / "0001_whole.sql").write_text(whole, encoding="utf-8")
    with psycopg.connect(database, autocommit=True) as admin:
        place = Place(database, tmp_path, Logins(database, KEY), admin, [])
        set_up(place)
        yield place
