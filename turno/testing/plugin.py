"""The kit as pytest fixtures: say `pytest_plugins = ["turno.testing.plugin"]` in your conftest.py.

Override `turno_registry` and `turno_data`, and use `world`, `clock`, `canaries` and `checker`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from turno.testing.checker import Checker
from turno.testing.installation import PRODUCT, Installation, build_world
from turno.testing.leak_detector import LeakDetector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from turno.testing.clock import FrozenClock

pytest_plugins = ["turno.testing.servers"]

LOOK_ALIKE = ("suc0001", "suc0002")


@pytest.fixture(scope="session")
def turno_registry() -> str:
    """Override: where your registry is, as `package.module:NAME`, a Registry or a function that builds one."""
    return PRODUCT


@pytest.fixture(scope="session")
def turno_data() -> Callable[[psycopg.Connection[Any]], None]:
    """Override: a function that fills one tenant's tables, whose names need no schema."""
    return lambda _connection: None


@pytest.fixture(scope="module")
def module_world(
    module_database: str,
    tmp_path_factory: pytest.TempPathFactory,
    turno_data: Callable[[psycopg.Connection[Any]], None],
) -> Iterator[Installation]:
    """A world of two look-alike tenants with the same rows, for the tests of one module."""
    fill = dict.fromkeys(LOOK_ALIKE, turno_data)
    with build_world(module_database, tmp_path_factory.mktemp("world"), fill, Installation) as world:
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
