"""The demo's results in numbers: a text, and one line of JSON for programs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from cli.demo.branches import ORDERS, orders_net_total
from cli.demo.errors import DemoFailed
from cli.demo.invoices import InvoiceIntegrity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cli.demo.batches import Run
    from cli.demo.branches import Invoiced


@dataclass(frozen=True, slots=True)
class Totals:
    """All branches together."""

    run: Run
    invoices: int
    lines: int
    net_total: Decimal
    iva_total: Decimal
    total: Decimal
    integrity: InvoiceIntegrity

    @classmethod
    def of(cls, run: Run, branches: Sequence[Invoiced]) -> Totals:
        """Add the branches up."""
        checks = [branch.integrity for branch in branches]
        return cls(
            run,
            sum(branch.invoices for branch in branches),
            sum(branch.lines for branch in branches),
            sum((branch.net_total for branch in branches), Decimal(0)),
            sum((branch.iva_total for branch in branches), Decimal(0)),
            sum((branch.total for branch in branches), Decimal(0)),
            InvoiceIntegrity(
                missing_numbers=sum(check.missing_numbers for check in checks),
                doubled_orders=sum(check.doubled_orders for check in checks),
                wrong_totals=sum(check.wrong_totals for check in checks),
            ),
        )

    def reply(self) -> str:
        """Return the report for people."""
        check = self.integrity
        return (
            f"{self.run.jobs} jobs, {ORDERS} orders: {self.invoices} invoices with {self.lines} lines in "
            f"{self.run.seconds:.1f} s ({ORDERS / self.run.seconds:.0f} orders/s), "
            f"202 after {self.run.dispatch_ms:.0f} ms\n"
            f"net {self.net_total:,} (the orders' own sum: {orders_net_total():,}), IVA {self.iva_total:,}, "
            f"total {self.total:,} USD\n"
            f"numbers missing: {check.missing_numbers}, orders invoiced twice: {check.doubled_orders}, "
            f"totals other than their lines: {check.wrong_totals}"
        )

    def as_json(self) -> str:
        """Return the report for programs, on one line; amounts are texts, because JSON's numbers are floats."""
        return json.dumps(
            {
                "jobs": self.run.jobs,
                "orders": ORDERS,
                "invoices": self.invoices,
                "lines": self.lines,
                "net_total": str(self.net_total),
                "orders_net_total": str(orders_net_total()),
                "iva_total": str(self.iva_total),
                "total": str(self.total),
                "missing_numbers": self.integrity.missing_numbers,
                "doubled_orders": self.integrity.doubled_orders,
                "wrong_totals": self.integrity.wrong_totals,
                "seconds": round(self.run.seconds, 3),
                "dispatch_ms": round(self.run.dispatch_ms, 1),
            }
        )

    def demand_integrity(self) -> None:
        """Raise DemoFailed if anything does not add up."""
        if self.integrity != InvoiceIntegrity(0, 0, 0):
            raise DemoFailed(f"the invoices do not add up: {self.integrity}")
        if (self.invoices, self.net_total) != (ORDERS, orders_net_total()):
            raise DemoFailed("invoices and orders differ in number or in their sum")
