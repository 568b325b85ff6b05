"""The demo's company with its branches: each with its share of the Northwind orders and nothing invoiced."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import psycopg

from cli.demo.errors import DemoFailed
from handlers.services.invoice_integrity import InvoiceIntegrity, check_invoices
from handlers.services.northwind.load import BRANCH_SHARES, expected_net_total, load_orders, reset_invoices
from turno.servers.wait import wait_until
from turno.store.engine import recovery, tickets
from turno.tenancy.identity.directory import read_tenant
from turno.tenancy.identity.session import LoginRefused, handler_session, service_session
from turno.tenancy.identity.tenant import HandlerLogin, Tenant
from turno.tenancy.provisioning.access import reset_login
from turno.tenancy.provisioning.install import install
from turno.tenancy.provisioning.provision import add_company, add_tenant
from turno.tenancy.schema_migrations.all_schemas import failed, migrate
from turno.tenancy.schema_migrations.fan_out import opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import Connection

    from turno.tenancy.identity.logins import Logins
    from turno.tenancy.schema_migrations.fan_out import Connect
    from turno.tenancy.schema_migrations.files import Migrations

COMPANY = "northwind"
SLUGS = ("suc0001", "suc0002", "suc0003")
# What people find to invoice once the demo has played: numbers of their own, beyond the real orders'.
FRESH = 100_000
ORDERS = sum(len(share) for share in BRANCH_SHARES)


@dataclass(frozen=True, slots=True)
class Invoiced:
    """What one branch has invoiced, as its tables say."""

    invoices: int
    lines: int
    net_total: Decimal
    iva_total: Decimal
    total: Decimal
    integrity: InvoiceIntegrity


def provision(connect: Connect, known: Logins, files: Migrations) -> list[Tenant]:
    """Return the branches, migrated to this release and made where they are missing."""
    with opened(connect) as admin:
        install(admin, known)
        if broken := failed(migrate(connect, known, migrations=files)):
            raise DemoFailed(f"{broken[0].slug or broken[0].schema}: {broken[0].error}")
        add_company(admin, known, COMPANY, "Northwind Traders")
        return [_usable(admin, known, add_tenant(admin, known, slug, COMPANY, migrations=files)) for slug in SLUGS]


def rescue_all(known: Logins) -> None:
    """Take back the jobs of an earlier demo's workers, which are known to be dead."""
    with service_session(known, known.engine, application="turno-demo") as engine:
        tickets.prune_workers(engine, timedelta(0), dry_run=False)
        for orphan in tickets.orphans(engine):
            recovery.rescue(
                engine,
                orphan.schema,
                orphan.job_id,
                orphan.token,
                cause="its demo was ended",
                retry_in=timedelta(0),
                counted=False,
            )


def fill(admin: Connection[Any], tenant: Tenant, share: range) -> list[int]:
    """Give a branch its share of the orders, none of them invoiced; return the orders to invoice."""
    _call_off_jobs(admin, tenant)
    with as_owner(admin, tenant):
        load_orders(admin, share)
        reset_invoices(admin)
        admin.execute("DELETE FROM order_lines WHERE order_id > %s", [FRESH])
        admin.execute("DELETE FROM orders WHERE id > %s", [FRESH])
    with as_owner(admin, tenant):
        return [order for (order,) in admin.execute("SELECT order_id FROM billable_orders ORDER BY order_id")]


def restock(admin: Connection[Any], tenant: Tenant) -> int:
    """Order everything of a branch once more, today, and return how many orders that makes; the first has no lines."""
    with as_owner(admin, tenant):
        admin.execute(
            "INSERT INTO orders SELECT id + %(fresh)s, customer_id, current_date, currency FROM orders",
            {"fresh": FRESH},
        )
        return admin.execute(
            """
            WITH lines AS (
                INSERT INTO order_lines
                SELECT order_id + %(fresh)s, line_no, product_id, quantity, unit_price, discount FROM order_lines
                WHERE order_id > (SELECT min(id) FROM orders)
            )
            SELECT FROM orders WHERE id > %(fresh)s
            """,
            {"fresh": FRESH},
        ).rowcount


def invoiced(admin: Connection[Any], tenant: Tenant) -> Invoiced:
    """Return what a branch has invoiced and whether it adds up."""
    with as_owner(admin, tenant):
        row = admin.execute(
            """
            SELECT count(*), (SELECT count(*) FROM invoice_lines), coalesce(sum(net_total), 0),
                   coalesce(sum(iva_total), 0), coalesce(sum(total), 0)
            FROM invoices
            """
        ).fetchone()
        assert row is not None  # noqa: S101 - an aggregate returns a row
        invoices, lines, net_total, iva_total, total = row
        return Invoiced(invoices, lines, net_total, iva_total, total, check_invoices(admin))


def orders_net_total() -> Decimal:
    """Return what all orders come to, from their file alone."""
    return sum(map(expected_net_total, BRANCH_SHARES), Decimal(0))


@contextmanager
def as_owner(admin: Connection[Any], tenant: Tenant) -> Iterator[None]:
    """Run one transaction as the owner of a branch's schema, whose tables unqualified names then mean."""
    with admin.transaction():
        admin.execute(
            "SELECT set_config('role', %s, true), set_config('search_path', %s, true)",
            (tenant.owner_role, f"{tenant.schema},pg_temp"),
        )
        yield


def _usable(admin: Connection[Any], known: Logins, tenant: Tenant) -> Tenant:
    # The keys may be new while the database is old: then the passwords derived from them are wrong.
    try:
        handler_session(known, HandlerLogin.of(tenant), application="turno-demo", kind=psycopg.Connection[Any]).close()
    except LoginRefused:
        reset_login(admin, known, tenant.slug)
        return read_tenant(admin, tenant.slug) or tenant
    return tenant


def _call_off_jobs(admin: Connection[Any], tenant: Tenant) -> None:
    def none_open() -> bool:
        with as_owner(admin, tenant):
            return not admin.execute(
                "SELECT job_cancel(id, NULL, 'the demo began anew') FROM background_jobs"
                " WHERE status IN ('pending', 'running')"
            ).rowcount

    if not wait_until(none_open, within=60, every=0.5):
        raise DemoFailed(f"jobs of {tenant.slug} still run; wait for them or stop their workers")
