"""An application that was in the database before Turno."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.capabilities.adoption.host_application import Host
from turno.tenancy.provisioning.install import install


@pytest.fixture
def bare_host(each_new_database: str) -> Iterator[Host]:
    """An application with two customers, and no Turno."""
    with psycopg.connect(each_new_database, autocommit=True) as admin:
        made = Host(each_new_database, admin)
        yield made
        made.drop()


@pytest.fixture
def host(bare_host: Host) -> Host:
    """The same with Turno beside it, and no tenant yet."""
    install(bare_host.admin, bare_host.logins)
    return bare_host
