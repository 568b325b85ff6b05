"""Number and store invoices, all of a call in one statement."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from psycopg import Connection
from psycopg.rows import class_row

from handlers.services.invoice import Invoice, Kind, Letter


@dataclass(frozen=True, slots=True)
class Line:
    """A line of an invoice, priced to the cent."""

    product_id: int
    quantity: int
    unit_price: Decimal
    discount: Decimal
    net: Decimal
    iva_rate: Decimal
    iva: Decimal


@dataclass(frozen=True, slots=True)
class Draft:
    """What an invoice or credit note will say, number aside."""

    order_id: int
    kind: Kind
    letter: Letter
    customer_id: str
    currency: str
    lines: tuple[Line, ...]

    @property
    def net_total(self) -> Decimal:
        """Return the sum of its lines' net amounts."""
        return sum((line.net for line in self.lines), Decimal(0))

    @property
    def iva_total(self) -> Decimal:
        """Return the sum of its lines' IVA."""
        return sum((line.iva for line in self.lines), Decimal(0))


# The unique order decides, so the loser of a race between two points of sale gets no row. The counter follows the
# invoices, not the reverse: where the only order turns out to be invoiced, that has used up no number.
STORE = """
    WITH draft AS (
        SELECT d.*,
               coalesce(c.last_number, 0) + row_number() OVER (PARTITION BY d.kind, d.letter ORDER BY d.n) AS number
        FROM unnest(%(order_ids)s::bigint[], %(kinds)s::text[], %(letters)s::text[], %(customers)s::text[],
                    %(currencies)s::text[], %(nets)s::numeric[], %(ivas)s::numeric[])
             WITH ORDINALITY AS d (order_id, kind, letter, customer_id, currency, net_total, iva_total, n)
        LEFT JOIN invoice_counters c
               ON (c.point_of_sale, c.kind, c.letter) = (%(point_of_sale)s, d.kind, d.letter)
    ), invoice AS (
        INSERT INTO invoices (order_id, kind, point_of_sale, letter, number, customer_id, net_total, iva_total, total,
                              currency)
        SELECT order_id, kind, %(point_of_sale)s, letter, number, customer_id, net_total, iva_total,
               net_total + iva_total, currency
        FROM draft ORDER BY n
        ON CONFLICT (order_id, kind) DO NOTHING
        RETURNING *
    ), counter AS (
        INSERT INTO invoice_counters (point_of_sale, kind, letter, last_number)
        SELECT point_of_sale, kind, letter, max(number) FROM invoice GROUP BY point_of_sale, kind, letter
        ON CONFLICT (point_of_sale, kind, letter) DO UPDATE SET last_number = excluded.last_number
    ), lines AS (
        INSERT INTO invoice_lines (invoice_id, line_no, product_id, quantity, unit_price, discount, net, iva_rate, iva)
        SELECT invoice.id, line.line_no, line.product_id, line.quantity, line.unit_price, line.discount, line.net,
               line.iva_rate, line.iva
        FROM unnest(%(line_of)s::integer[], %(line_nos)s::integer[], %(product_ids)s::integer[],
                    %(quantities)s::integer[], %(unit_prices)s::numeric[], %(discounts)s::numeric[],
                    %(line_nets)s::numeric[], %(iva_rates)s::numeric[], %(line_ivas)s::numeric[])
             AS line (n, line_no, product_id, quantity, unit_price, discount, net, iva_rate, iva)
        JOIN draft ON draft.n = line.n
        JOIN invoice ON invoice.order_id = draft.order_id AND invoice.kind = draft.kind
    )
    SELECT invoice.id, invoice.kind, invoice.order_id, invoice.letter, invoice.point_of_sale, invoice.number,
           invoice.net_total, invoice.iva_total, invoice.total, (%(line_counts)s::integer[])[draft.n] AS lines
    FROM invoice JOIN draft ON draft.order_id = invoice.order_id AND draft.kind = invoice.kind
    ORDER BY draft.n
"""


# NO KEY: whoever merely refers to the point of sale need not wait.
LOCK = "SELECT issuer_condition FROM points_of_sale WHERE id = %s FOR NO KEY UPDATE"


def store(connection: Connection[Any], drafts: Sequence[Draft], point_of_sale: int) -> list[Invoice]:
    """Store the drafts under the next numbers of the point of sale, which the caller locked; returns the invoices.

    A draft whose order has such an invoice is left out; where one of several is, the numbers have a gap: undo them all.
    """
    if not drafts:
        return []
    lines = [
        (place, number, line) for place, draft in enumerate(drafts, 1) for number, line in enumerate(draft.lines, 1)
    ]
    columns = {
        "point_of_sale": point_of_sale,
        "order_ids": [draft.order_id for draft in drafts],
        "kinds": [draft.kind for draft in drafts],
        "letters": [draft.letter for draft in drafts],
        "customers": [draft.customer_id for draft in drafts],
        "currencies": [draft.currency for draft in drafts],
        "nets": [draft.net_total for draft in drafts],
        "ivas": [draft.iva_total for draft in drafts],
        "line_counts": [len(draft.lines) for draft in drafts],
        "line_of": [place for place, _, _ in lines],
        "line_nos": [number for _, number, _ in lines],
        "product_ids": [line.product_id for _, _, line in lines],
        "quantities": [line.quantity for _, _, line in lines],
        "unit_prices": [line.unit_price for _, _, line in lines],
        "discounts": [line.discount for _, _, line in lines],
        "line_nets": [line.net for _, _, line in lines],
        "iva_rates": [line.iva_rate for _, _, line in lines],
        "line_ivas": [line.iva for _, _, line in lines],
    }
    with connection.cursor(row_factory=class_row(Invoice)) as cursor:
        return cursor.execute(STORE, columns).fetchall()


def invoices_of(connection: Connection[Any], order_id: int) -> list[Invoice]:
    """Return what was issued of an order, its invoice before its credit note."""
    query = """
        SELECT id, kind, order_id, letter, point_of_sale, number, net_total, iva_total, total,
               (SELECT count(*) FROM invoice_lines WHERE invoice_id = invoices.id) AS lines
        FROM invoices
        WHERE order_id = %s
        ORDER BY kind DESC
    """
    with connection.cursor(row_factory=class_row(Invoice)) as cursor:
        return cursor.execute(query, (order_id,)).fetchall()
