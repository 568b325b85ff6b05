"""The real servers that tests run against beside PostgreSQL; each is private to one test process and ends with it."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from cli.servers.embedded_postgres import Cluster
from cli.servers.private_rabbitmq import Node
from cli.servers.system_packages import (
    CHROMIUM,
    LOGROTATE,
    NGINX,
    PGBOUNCER,
    POSTGRES_15,
    PROMTOOL,
    SPIN,
    SYSTEMD_ANALYZE,
)
from tests.quick_servers import quick_server
from turno.testing.servers import fresh_database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

    from tests.mutants.prepared_checkout import PreparedCheckout

CHROMIUM_ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A RabbitMQ node for this test process."""
    with Node(folder=tmp_path_factory.mktemp("rabbitmq")) as node:
        yield node
    shutil.rmtree(node.folder)


@pytest.fixture(scope="session")
def postgres15() -> Iterator[Cluster]:
    """A server of PostgreSQL 15, the oldest that is supported, for this test process."""
    with quick_server(POSTGRES_15.require().parent) as server:
        yield server


@pytest.fixture
def pgbouncer() -> Path:
    """The program of the pooler that many applications have before their database."""
    return PGBOUNCER.require()


@pytest.fixture
def nginx() -> Path:
    """The proxy that deploy/nginx configures."""
    return NGINX.require()


@pytest.fixture
def logrotate() -> Path:
    """Rotates log files as deploy/logrotate configures."""
    return LOGROTATE.require()


@pytest.fixture
def promtool() -> Path:
    """Checks rules and queries as Prometheus does."""
    return PROMTOOL.require()


@pytest.fixture(scope="session")
def spin() -> Path:
    """The model checker that searches model/jobs.pml."""
    return SPIN.require()


@pytest.fixture
def systemd_analyze() -> Path:
    """Checks units as systemd does."""
    return SYSTEMD_ANALYZE.require()


@pytest.fixture(scope="module", params=["cluster", pytest.param("postgres15", marks=pytest.mark.postgres15)])
def each_database(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of an empty database, new for each module: on the embedded server, and then on the oldest."""
    with fresh_database(request.getfixturevalue(request.param)) as url:
        yield url


@pytest.fixture(params=["cluster", pytest.param("postgres15", marks=pytest.mark.postgres15)])
def each_new_database(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of an empty database, new for each test: on the embedded server, and then on the oldest."""
    with fresh_database(request.getfixturevalue(request.param)) as url:
        yield url


@contextmanager
def a_browser() -> Iterator[Browser]:
    """Give a headless Chromium."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - half a second that only browser tests should pay

    program = CHROMIUM.require()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(CHROMIUM_ARGUMENTS))
        yield browser
        browser.close()


# Not for the whole session: while Playwright is open, asyncio.run() is refused everywhere in the process.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A headless Chromium, new for each module; open a new context or page for each test."""
    with a_browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def prepared_checkout() -> Iterator[PreparedCheckout]:
    """The checkout in which this test process hunts mutants."""
    from tests.mutants.prepared_checkout import PreparedCheckout  # noqa: PLC0415 - of few tests

    with PreparedCheckout() as prepared:
        yield prepared
