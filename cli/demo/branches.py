"""The demo's company with its branches: each with its share of the Northwind orders and nothing invoiced."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from cli.demo.errors import DemoFailed
from cli.demo.invoices import InvoiceIntegrity, check_invoices
from tenants.company import BRANCHES, COMPANY, NAME
from tenants.northwind.load import BRANCH_SHARES, expected_net_total, load_orders, reset_invoices
from turno.administration import Administration, MigrationFailed
from turno.testing.wait import wait_until

# Orders that remain to invoice after the demo, numbered beyond the real orders.
FRESH = 100_000
ORDERS = sum(len(share) for share in BRANCH_SHARES)


@dataclass(frozen=True, slots=True)
class Invoiced:
    """A branch's invoices, counted in its tables."""

    invoices: int
    lines: int
    net_total: Decimal
    iva_total: Decimal
    total: Decimal
    integrity: InvoiceIntegrity


def provision(installation: Administration) -> None:
    """Migrate the branches to this release, and create missing branches."""
    try:
        installation.migrate()
    except MigrationFailed as failed:
        raise DemoFailed(str(failed)) from failed
    installation.add_company(COMPANY, NAME)
    for slug in BRANCHES:
        installation.add_tenant(slug, COMPANY)


def fill(installation: Administration, slug: str, share: range) -> list[int]:
    """Give a branch its share of the orders, none of them invoiced; return the orders to invoice."""
    _call_off_jobs(installation, slug)
    with installation.as_owner(slug) as admin:
        load_orders(admin, share)
        reset_invoices(admin)
        admin.execute("DELETE FROM order_lines WHERE order_id > %s", [FRESH])
        admin.execute("DELETE FROM orders WHERE id > %s", [FRESH])
    with installation.as_owner(slug) as admin:
        return [order for (order,) in admin.execute("SELECT order_id FROM billable_orders ORDER BY order_id")]


def restock(installation: Administration, slug: str) -> int:
    """Order everything of a branch once more, today; return how many orders its page lists. The first has no lines."""
    with installation.as_owner(slug) as admin:
        admin.execute(
            "INSERT INTO orders SELECT id + %(fresh)s, customer_id, current_date, currency FROM orders"
            " WHERE id <= %(fresh)s",
            {"fresh": FRESH},
        )
        admin.execute(
            """
            INSERT INTO order_lines
            SELECT order_id + %(fresh)s, line_no, product_id, quantity, unit_price, discount FROM order_lines
            WHERE order_id > (SELECT min(id) FROM orders) AND order_id <= %(fresh)s
            """,
            {"fresh": FRESH},
        )
        return admin.execute("SELECT FROM billable_orders").rowcount


def invoiced(installation: Administration, slug: str) -> Invoiced:
    """Return a branch's invoices and whether they add up."""
    with installation.as_owner(slug) as admin:
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
    """Return the total of all orders, read from their file alone."""
    return sum(map(expected_net_total, BRANCH_SHARES), Decimal(0))


def _call_off_jobs(installation: Administration, slug: str) -> None:
    """Cancel the open jobs of a branch; running jobs stop at their next chunk."""

    def all_ended() -> bool:
        return not installation.cancel_open_jobs(slug, reason="the demo began anew")

    if not wait_until(all_ended, within=60, every=0.5):
        raise DemoFailed(f"jobs of {slug} still run; wait for them or stop their workers")
