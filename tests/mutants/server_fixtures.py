"""Databases for a mutant's tests on the server that serves one run after another, instead of one for each run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from turno.testing.servers import fresh_database


class Server(NamedTuple):
    """Where the superuser reaches the server: `url` is of its database `postgres`, on a socket."""

    url: str

    def url_of(self, database: str) -> str:
        """Return where the superuser reaches `database`."""
        return self.url.replace("/postgres?", f"/{database}?")


@pytest.fixture
def database(pytestconfig: pytest.Config) -> Iterator[str]:
    """The URL of an empty database, new for each test."""
    with fresh_database(Server(pytestconfig.getoption("--server"))) as url:
        yield url


@pytest.fixture(scope="module")
def module_database(pytestconfig: pytest.Config) -> Iterator[str]:
    """The URL of an empty database, new for each module."""
    with fresh_database(Server(pytestconfig.getoption("--server"))) as url:
        yield url
