"""The server that serves the runs of many mutants, as the fixture `cluster` of such a run.

A clone of a template needs no second build in these runs: no test of another module has changed its roles. With the
option `--as-built` nothing in the database differs from the template either.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cli.servers.embedded_postgres import Cluster
from turno.tenancy.identity.directory import find_tenant
from turno.testing import build

if TYPE_CHECKING:
    from collections.abc import Iterable

    import psycopg

    from turno.tenancy.identity.logins import Logins
    from turno.tenancy.identity.tenant import Tenant
    from turno.tenancy.schema_migrations.files import Migrations

SOCKETS = 4  # the line of postmaster.pid with the folder of the socket


def pytest_configure(config: pytest.Config) -> None:
    """Read the tenants of a clone in place of a second build, if the run's change is outside the database."""
    if not config.getoption("--as-built"):
        return
    install_tenants = build.install_tenants

    def tenants_of(
        admin: psycopg.Connection[Any],
        logins: Logins,
        company: tuple[str, str],
        slugs: Iterable[str],
        migrations: Migrations,
    ) -> dict[str, Tenant]:
        if admin.execute("SELECT to_regclass('turno.tenants') IS NULL").fetchone() == (True,):
            return install_tenants(admin, logins, company, slugs, migrations)
        return {slug: find_tenant(admin, slug) for slug in slugs}

    build.install_tenants = tenants_of


class StartedElsewhere(Cluster):
    """A server that another process started, and stops."""

    def __init__(self, data: Path) -> None:
        super().__init__(data=data, durable=False)
        self._sockets = Path((data / "postmaster.pid").read_text().splitlines()[SOCKETS])


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> Cluster:
    """The server of the data folder in the option."""
    return StartedElsewhere(Path(pytestconfig.getoption("--server")))
