"""Issue the invoice of one order, and check the invoices of a branch without the constraints of its tables."""

from dataclasses import dataclass
from typing import Any

from psycopg import Connection
from psycopg.rows import class_row

from handlers.invoicing import Invoice, InvoicingError, issue_all


@dataclass(frozen=True, slots=True)
class InvoiceIntegrity:
    """The number of faults of each kind; all must be zero."""

    missing_numbers: int
    doubled_orders: int
    wrong_totals: int


def issue(connection: Connection[Any], order_id: int, point_of_sale: int) -> tuple[Invoice, ...]:
    """Issue the documents of one order, as `issue_all` does; raises its InvoicingError."""
    answer = issue_all(connection, [order_id], point_of_sale)[order_id]
    if isinstance(answer, InvoicingError):
        raise answer
    return answer


def check_invoices(connection: Connection[Any]) -> InvoiceIntegrity:
    """Count numbers missing below the highest given, orders invoiced twice, totals other than their lines' sums."""
    query = """
        SELECT
            (SELECT coalesce(sum(greatest(highest, last_number) - coalesce(given, 0)), 0)::integer
             FROM invoice_counters
             FULL JOIN (SELECT point_of_sale, kind, letter, max(number) AS highest, count(DISTINCT number) AS given
                        FROM invoices GROUP BY point_of_sale, kind, letter) used
             USING (point_of_sale, kind, letter)) AS missing_numbers,
            (SELECT count(*) - count(DISTINCT (order_id, kind)) FROM invoices) AS doubled_orders,
            (SELECT count(*)
             FROM invoices i
             LEFT JOIN (SELECT invoice_id, sum(net) AS net, sum(iva) AS iva
                        FROM invoice_lines GROUP BY invoice_id) l ON l.invoice_id = i.id
             WHERE (i.net_total, i.iva_total, i.total) IS DISTINCT FROM (l.net, l.iva, l.net + l.iva)) AS wrong_totals
    """
    with connection.cursor(row_factory=class_row(InvoiceIntegrity)) as cursor:
        (integrity,) = cursor.execute(query).fetchall()
    return integrity
