"""Fixtures and rules for every test."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from cli.servers.system_packages import WANTED

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest_plugins = [
    "turno.testing.plugin",
    "tests.quick_servers",
    "tests.servers",
    "tests.no_skips",
    "tests.scheduling",
    "tests.installation",
    "tests.api",
    "tests.site",
    "tests.wheel",
]

# On a loaded machine generating an input takes seconds.
settings.register_profile("loaded", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("loaded")
# `--hypothesis-profile=soak` lets the stateful tests run for hours; CI itself runs the same examples each time.
settings.register_profile("soak", max_examples=40_000, deadline=None)

# A separate project; test_example_project.py runs its tests like an outside user.
collect_ignore = ["example_project"]

MARKED_BY_FIXTURE = tuple(package.marker for package in WANTED)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use a server which a machine may lack, so that `-m` can leave them out."""
    for item in items:
        for name in MARKED_BY_FIXTURE:
            if name in getattr(item, "fixturenames", ()):
                item.add_marker(name)


@pytest.fixture(autouse=True)
def environment_stays() -> Iterator[None]:
    """A test that leaves a variable behind fails: the tests after it in the same process would read it."""
    before = dict(os.environ)
    yield
    after = dict(os.environ)
    changed = {name for name in before | after if before.get(name) != after.get(name)} - {"PYTEST_CURRENT_TEST"}
    for name in changed:
        os.environ.pop(name, None)
    os.environ.update({name: before[name] for name in changed & before.keys()})
    assert not changed, f"the test changed the environment: {', '.join(sorted(changed))}"


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C works here and in processes started here, even if the run itself was started to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
