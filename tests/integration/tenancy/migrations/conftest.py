"""An installation with three tenants and separate migrations."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.integration.tenancy.migrations.place import KEY, PACKAGED, Place, set_up
from turno.tenancy.identity.logins import Logins


@pytest.fixture
def place(database: str, tmp_path: Path) -> Iterator[Place]:
    shutil.copytree(PACKAGED, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.py*", "__pycache__"))
    with psycopg.connect(database, autocommit=True) as admin:
        place = Place(database, tmp_path, Logins(database, KEY), admin, [])
        set_up(place)
        yield place
