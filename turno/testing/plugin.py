"""The kit as pytest fixtures: say `pytest_plugins = ["turno.testing.plugin"]` in your conftest.py.

Your handlers and tables are where HANDLERS and MIGRATIONS, or `[tool.turno]` in your pyproject.toml, say. Override
`turno_data`, and use `world`, `clock`, `canaries` and `checker`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from turno.environment import said
from turno.testing.build import build_world
from turno.testing.checker import Checker
from turno.testing.installation import Installation
from turno.testing.leak_detector import LeakDetector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from turno.testing.clock import FrozenClock

pytest_plugins = ["turno.testing.servers"]

LOOK_ALIKE = ("suc0001", "suc0002")


@pytest.fixture(scope="session")
def turno_registry() -> str:
    """Override: where your handlers are, as `package.module:NAME`, if that is not where your project says."""
    return said("HANDLERS")


@pytest.fixture(scope="session")
def turno_migrations() -> Path | None:
    """Override: the folder of your tables' migrations, if that is not where your project says."""
    folder = said("MIGRATIONS")
    return Path(folder) if folder else None


@pytest.fixture(scope="session")
def turno_data() -> Callable[[psycopg.Connection[Any]], None]:
    """Override: a function that fills one tenant's tables, whose names need no schema."""
    return lambda _connection: None


@pytest.fixture(scope="module")
def module_world(
    module_database: str,
    tmp_path_factory: pytest.TempPathFactory,
    turno_data: Callable[[psycopg.Connection[Any]], None],
    turno_migrations: Path | None,
) -> Iterator[Installation]:
    """A world of two look-alike tenants with the same rows, for the tests of one module."""
    fill = dict.fromkeys(LOOK_ALIKE, turno_data)
    with build_world(module_database, tmp_path_factory.mktemp("world"), fill, Installation, turno_migrations) as world:
        yield world


@pytest.fixture
def world(module_world: Installation, turno_registry: str) -> Installation:
    """The module's world, with nothing left of the test before."""
    module_world.forget()
    module_world.extra.clear()
    module_world.registry = turno_registry
    module_world.backend = "exec"
    return module_world


@pytest.fixture
def clock(world: Installation) -> Iterator[FrozenClock]:
    """The world's clock, frozen from here to the end of the test."""
    world.clock.freeze()
    yield world.clock
    world.clock.thaw()


@pytest.fixture
def leak_detector(world: Installation) -> LeakDetector:
    """A canary for each tenant, and what was heard of them."""
    return LeakDetector(world.url, world.tenants.values(), world.folder)


@pytest.fixture
def checker(world: Installation) -> Checker:
    """The independent checker of this world."""
    return Checker(world.url, world.tenants.values())
