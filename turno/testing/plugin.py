"""The kit as pytest fixtures: say `pytest_plugins = ["turno.testing.plugin"]` in your conftest.py.

Your handlers and tables are where `[tool.turno]` in your pyproject.toml names them. Override
`turno_data`, and use `turno`, `turno_clock`, `turno_leaks` and `turno_checker`.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from turno.environment import project, setting
from turno.testing.build import build_installation
from turno.testing.checker import Checker
from turno.testing.clock import FrozenClock
from turno.testing.installation import Installation
from turno.testing.leak_detector import LeakDetector

pytest_plugins = ["turno.testing.servers"]

LOOK_ALIKE = ("suc0001", "suc0002")


@pytest.fixture(scope="session")
def turno_registry() -> str:
    """Override: the place of your handlers, as `package.module:NAME`, if your project names another place."""
    return setting("handlers")


@pytest.fixture(scope="session")
def turno_migrations() -> Path | None:
    """Override: the folder of your tables' migrations, if your project names another folder."""
    folder = project().get("migrations")
    return Path(folder) if folder else None


@pytest.fixture(scope="session")
def turno_data() -> Callable[[psycopg.Connection[Any]], None]:
    """Override: a function that fills the tables of one tenant; table names need no schema."""
    return lambda _connection: None


@pytest.fixture(scope="module")
def turno_module(
    module_database: str,
    tmp_path_factory: pytest.TempPathFactory,
    turno_data: Callable[[psycopg.Connection[Any]], None],
    turno_migrations: Path | None,
) -> Iterator[Installation]:
    """Two look-alike tenants with the same rows, for the tests of one module."""
    fill = dict.fromkeys(LOOK_ALIKE, turno_data)
    with build_installation(
        module_database, tmp_path_factory.mktemp("turno"), fill, Installation, turno_migrations
    ) as made:
        yield made


@pytest.fixture
def turno(turno_module: Installation, turno_registry: str) -> Installation:
    """The module's installation, cleared of the previous test."""
    turno_module.renew(turno_registry)
    return turno_module


@pytest.fixture
def turno_clock(turno: Installation) -> Iterator[FrozenClock]:
    """The installation's clock, frozen until the end of the test."""
    turno.clock.freeze()
    yield turno.clock
    turno.clock.thaw()


@pytest.fixture
def turno_leaks(turno: Installation) -> LeakDetector:
    """A detector of the marker of each tenant among other tenants."""
    return LeakDetector(turno.url, turno.tenants.values(), turno.folder)


@pytest.fixture
def turno_checker(turno: Installation) -> Checker:
    """The independent checker of this installation."""
    return Checker(turno.url, turno.tenants.values())
