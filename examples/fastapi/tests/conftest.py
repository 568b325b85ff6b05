"""The test kit of Turno: a private PostgreSQL with two tenants, which have the tables of the ERP."""

from pathlib import Path

import pytest

pytest_plugins = ["turno.testing.plugin"]


@pytest.fixture(scope="session")
def turno_migrations() -> Path:
    return Path(__file__).parent / "tables"
