"""An installation with three tenants and separate migrations."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.integration.tenancy.migrations.migrated_installation import KEY, PACKAGED, MigratedInstallation, set_up
from turno.tenancy.identity.logins import Logins


@pytest.fixture
def installation(database: str, tmp_path: Path) -> Iterator[MigratedInstallation]:
    shutil.copytree(PACKAGED, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.py*", "__pycache__"))
    with psycopg.connect(database, autocommit=True) as admin:
        installation = MigratedInstallation(database, tmp_path, Logins(database, KEY), admin, [])
        set_up(installation)
        yield installation
