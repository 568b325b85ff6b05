"""Fixtures and rules for every test."""

from __future__ import annotations

import pytest

pytest_plugins = ["tests.servers", "tests.no_skips"]

MARKED_BY_FIXTURE = ("rabbitmq", "chromium")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use a server which a machine may lack, so that `-m` can leave them out."""
    for item in items:
        for name in MARKED_BY_FIXTURE:
            if name in getattr(item, "fixturenames", ()):
                item.add_marker(name)
