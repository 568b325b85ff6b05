"""Read the tenant's figures for the page: the orders to invoice and the invoices' totals."""

from typing import Any, LiteralString

import psycopg

Reader = psycopg.Cursor[dict[str, Any]]

# An exact order number, or a part of its customer's name.
_MATCHING: LiteralString = """
FROM billable_orders o
WHERE (%(text)s = '' OR o.order_id::text = %(text)s OR strpos(lower(o.company_name), lower(%(text)s)) > 0)
"""


def billable(reader: Reader, text: str, *, after: int, limit: int) -> list[dict[str, Any]]:
    """Return a page of orders without an invoice, in the order of their numbers."""
    reader.execute(
        "SELECT order_id, ordered_on, left(company_name, 200) AS company_name, currency, line_count, net_amount "
        + _MATCHING
        + "AND o.order_id > %(after)s ORDER BY o.order_id LIMIT %(limit)s",
        {"text": text, "after": after, "limit": limit},
    )
    return reader.fetchall()


def billable_sums(reader: Reader, text: str) -> list[dict[str, Any]]:
    """Return for each currency the number of waiting orders, their sum and the last number."""
    reader.execute(
        "SELECT o.currency, count(*) AS orders, sum(o.net_amount) AS net_amount, max(o.order_id) AS last "
        + _MATCHING
        + "GROUP BY o.currency ORDER BY o.currency",
        {"text": text},
    )
    return reader.fetchall()


def billable_ids(reader: Reader, text: str, *, last: int) -> list[int]:
    """Return the numbers of all orders without an invoice up to `last`."""
    reader.execute(
        "SELECT o.order_id " + _MATCHING + "AND o.order_id <= %(last)s ORDER BY o.order_id",
        {"text": text, "last": last},
    )
    return [row["order_id"] for row in reader]


def invoice_totals(reader: Reader) -> list[dict[str, Any]]:
    """Return the invoiced totals by letter and currency, and the credit notes as negative amounts."""
    reader.execute(
        "SELECT 'invoice' AS kind, letter, currency, invoices, net_total, iva_total, total FROM invoice_totals"
        " UNION ALL SELECT 'credit note', letter, currency, credit_notes, -net_total, -iva_total, -total"
        " FROM credit_note_totals ORDER BY kind DESC, letter, currency"
    )
    return reader.fetchall()


def points_of_sale(reader: Reader) -> list[dict[str, Any]]:
    """Return the points of sale that may number invoices, in order."""
    reader.execute("SELECT point_of_sale, issuer_condition FROM invoicing_points ORDER BY point_of_sale")
    return reader.fetchall()


def last_point_of_sale(reader: Reader, user_id: str, job_type: str) -> int | None:
    """Return the point of sale of the user's latest job of this type."""
    reader.execute(
        "SELECT (payload->>'point_of_sale')::integer AS point_of_sale FROM background_jobs"
        " WHERE user_id = %s AND type = %s ORDER BY id DESC LIMIT 1",
        (user_id, job_type),
    )
    row = reader.fetchone()
    return row["point_of_sale"] if row else None
