"""The PostgreSQL server of a run of tests as fixtures, with databases, which are dropped afterwards."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import psycopg
import pytest
from psycopg import sql

from turno.testing.private_postgres import private_postgres


class Server(Protocol):
    """A PostgreSQL server and the addresses for its superuser."""

    @property
    def url(self) -> str:
        """Its database `postgres`."""

    def url_of(self, database: str) -> str:
        """Return the URL of another database of the server."""


@pytest.fixture(scope="session")
def cluster() -> Iterator[Server]:
    """Override: the PostgreSQL server; by default a private server for this test process."""
    with private_postgres() as server:
        yield server


@contextmanager
def fresh_database(cluster: Server) -> Iterator[str]:
    """Yield the URL of an empty database, which is dropped afterwards, also with connected sessions."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(cluster.url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    yield cluster.url_of(name)
    with psycopg.connect(cluster.url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def database(cluster: Server) -> Iterator[str]:
    """The URL of an empty database, new for each test."""
    with fresh_database(cluster) as url:
        yield url


@pytest.fixture(scope="module")
def module_database(cluster: Server) -> Iterator[str]:
    """The URL of an empty database, new for each module."""
    with fresh_database(cluster) as url:
        yield url
