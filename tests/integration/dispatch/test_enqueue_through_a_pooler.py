"""An application behind a pooler by transaction enqueues, and keeps its abilities from before Turno."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql

import turno
from handlers import build_registry
from handlers.batch_invoicing import BatchInvoicing
from tests.pgbouncer import pooled
from turno.capabilities.adoption.uninstall import uninstall
from turno.store.engine.announcements import of
from turno.store.engine.engine import Engine
from turno.tenancy.identity.logins import Logins
from turno.tenancy.provisioning.install import install
from turno.tenancy.provisioning.provision import add_company, add_tenant
from turno.tenancy.provisioning.removal import remove_tenant

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY = b"the tests' own master key, 32 or more"
ORDERS = {"order_ids": [1], "point_of_sale": 1}
BY_SQL = "SELECT job_id FROM turno.enqueue(tenant => 'suc0001', type => 'batch_invoicing', payload => '{}')"


@pytest.fixture
def admin(database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database, autocommit=True) as session:
        yield session


@pytest.fixture
def role(admin: psycopg.Connection[Any]) -> Iterator[str]:
    name = f"erp_{secrets.token_hex(4)}"
    admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'x'").format(sql.Identifier(name)))
    yield name
    admin.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(name)))


def test_an_application_behind_a_pooler(
    pgbouncer: Path, database: str, admin: psycopg.Connection[Any], role: str, tmp_path: Path
) -> None:
    logins = Logins(database, KEY)

    def connect() -> psycopg.Connection[Any]:
        # A statement prepared in a session is of no use to the session's next client.
        return psycopg.connect(conninfo, prepare_threshold=None)

    def works() -> None:
        with connect() as session:
            session.execute("SELECT pg_advisory_xact_lock(7)")
            session.execute("CREATE TEMP TABLE scratch (id integer) ON COMMIT DROP")

    with pooled(pgbouncer, database, role, tmp_path) as conninfo:
        works()
        install(admin, logins)
        add_company(admin, logins, "acme", "Acme")
        add_tenant(admin, logins, "suc0001", "acme")
        Engine.on(admin).announce(of(build_registry()), 20)
        works()
        with connect() as first, connect() as other:
            pids = set()
            for number in range(8):
                pids.add(first.execute("SELECT pg_backend_pid()").fetchone())
                turno.enqueue(first, "suc0001", BatchInvoicing, ORDERS, key=f"june-{number}")
                first.commit()
                assert other.execute(BY_SQL).fetchone()
                pids.add(other.execute("SELECT pg_backend_pid()").fetchone())
                other.commit()
            turno.enqueue_many(first, "suc0001", BatchInvoicing, [ORDERS] * 3)
            first.rollback()
        assert len(pids) == 1
        assert admin.execute("SELECT FROM turno.tickets").rowcount == 16
        remove_tenant(admin, logins, "suc0001")
        uninstall(admin, logins)
        works()
