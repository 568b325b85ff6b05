"""Turn orders into invoices, inside the caller's transaction. The database computes all amounts, in numeric."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Literal

from psycopg import Connection
from psycopg.rows import dict_row, tuple_row


@dataclass(frozen=True, slots=True)
class Invoice:
    """An invoice or credit note as stored; amounts in the currency of its order, to the cent, never negative."""

    id: int
    kind: Literal["invoice", "credit_note"]
    order_id: int
    letter: Literal["A", "B", "C"]
    point_of_sale: int
    number: int
    net_total: Decimal
    iva_total: Decimal
    total: Decimal
    lines: int

    @property
    def label(self) -> str:
        """The number as printed, such as `B 00001-00000042`; NC precedes the number of a credit note."""
        return f"{'NC ' if self.kind == 'credit_note' else ''}{self.letter} {self.point_of_sale:05d}-{self.number:08d}"


class InvoicingError(Exception):
    """The order cannot be invoiced; the docstring of a subclass is the message for a clerk."""

    def __str__(self) -> str:
        template = self.__doc__ or type(self).__name__  # python -OO strips docstrings
        return template.format_map(vars(self))


@dataclass(eq=False)
class UnknownPointOfSale(InvoicingError):
    """There is no point of sale {point_of_sale}: choose one of this branch's, or register it first."""

    point_of_sale: int


@dataclass(eq=False)
class UnknownOrder(InvoicingError):
    """There is no order {order_id} in this branch: check its number, or load the order first."""

    order_id: int


@dataclass(eq=False)
class EmptyOrder(InvoicingError):
    """Order {order_id} has no lines to invoice: add the sold products, then invoice it again."""

    order_id: int


@dataclass(eq=False)
class AlreadyInvoiced(InvoicingError):
    """Order {order_id} already has invoice {invoice.label}, total {invoice.total}: nothing was issued."""

    order_id: int
    invoice: Invoice


class InvoicedMeanwhile(Exception):
    """Another point of sale has invoiced one of several orders: roll back, and issue them one by one."""


# NO KEY: a transaction that only refers to the point of sale does not wait.
LOCK = "SELECT id FROM points_of_sale WHERE id = %s FOR NO KEY UPDATE"
# Lines of negative quantity were taken back: a credit note. The unique order decides a race between two points of sale;
# the loser gets no row. The counter follows the invoices: a lost race of a single order uses up no number.
ISSUE = """
    WITH line AS (
        SELECT d.n, o.id AS order_id, o.customer_id, o.currency, k.*, l.line_no AS place, l.product_id, l.unit_price,
               l.discount, abs(l.quantity) AS quantity, CASE k.letter WHEN 'C' THEN 0 ELSE p.iva_rate END AS iva_rate
        FROM unnest(%(order_ids)s::bigint[]) WITH ORDINALITY AS d (order_id, n)
        JOIN orders o ON o.id = d.order_id AND NOT EXISTS (SELECT FROM invoices i WHERE i.order_id = o.id)
        JOIN customers c ON c.id = o.customer_id
        JOIN points_of_sale s ON s.id = %(point_of_sale)s
        JOIN order_lines l ON l.order_id = o.id
        JOIN products p ON p.id = l.product_id
        CROSS JOIN LATERAL (
            SELECT CASE WHEN l.quantity > 0 THEN 'invoice' ELSE 'credit_note' END AS kind,
                   CASE WHEN s.issuer_condition = 'monotributo' THEN 'C'
                        WHEN c.tax_condition IN ('registered', 'monotributo') THEN 'A' ELSE 'B' END AS letter,
                   round(l.unit_price * abs(l.quantity) * (1 - l.discount), 2) AS net) k
    ), priced AS (
        SELECT *, round(net * iva_rate * 0.01, 2) AS iva FROM line
    ), draft AS (
        SELECT d.*, coalesce(c.last_number, 0) + row_number() OVER (PARTITION BY d.kind, d.letter ORDER BY d.n)
                    AS number
        FROM (SELECT n, order_id, customer_id, currency, kind, letter, sum(net) AS net_total, sum(iva) AS iva_total,
                     count(*) AS lines
              FROM priced GROUP BY n, order_id, customer_id, currency, kind, letter) d
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
    ), stored_line AS (
        INSERT INTO invoice_lines (invoice_id, line_no, product_id, quantity, unit_price, discount, net, iva_rate, iva)
        SELECT i.id, row_number() OVER (PARTITION BY i.id ORDER BY p.place), product_id, quantity, unit_price, discount,
               net, iva_rate, iva
        FROM priced p JOIN invoice i USING (order_id, kind)
    )
    SELECT i.id, d.kind, d.order_id, d.letter, i.point_of_sale, d.number, d.net_total, d.iva_total, i.total, d.lines
    FROM draft d LEFT JOIN invoice i USING (order_id, kind) ORDER BY d.n, d.kind DESC
"""
# Invoices of these orders, invoices before credit notes; an order without any has one row of NULL.
INVOICES_OF = """
    SELECT i.id, i.kind, o.id AS order_id, i.letter, i.point_of_sale, i.number, i.net_total, i.iva_total, i.total,
           (SELECT count(*) FROM invoice_lines l WHERE l.invoice_id = i.id) AS lines
    FROM orders o LEFT JOIN invoices i ON i.order_id = o.id
    WHERE o.id = ANY (%s::bigint[]) ORDER BY o.id, i.kind DESC
"""
Answer = tuple[Invoice, ...] | InvoicingError


def issue_all(connection: Connection[Any], order_ids: Sequence[int], point_of_sale: int) -> dict[int, Answer]:
    """Issue an invoice of the sold lines and a credit note of the returned lines of each order, once; never commits.

    Returns for each order its documents, or an UnknownOrder, EmptyOrder or AlreadyInvoiced. Numbers follow the order of
    `order_ids` without gaps: the point of sale is locked until the transaction or savepoint ends, and orders are read
    after that. Raises UnknownPointOfSale before any write, and InvoicedMeanwhile if another point of sale invoices one
    of several orders. Pass ascending ids, or two points of sale may deadlock.
    """
    known = [order_id for order_id in order_ids if 0 <= order_id < 2**63]
    with connection.cursor(row_factory=tuple_row) as lock, connection.cursor(row_factory=dict_row) as cursor:
        with connection.pipeline():
            lock.execute(LOCK, (point_of_sale,))
            cursor.execute(ISSUE, {"order_ids": known, "point_of_sale": point_of_sale})
        if lock.fetchone() is None:
            raise UnknownPointOfSale(point_of_sale)
        answers: dict[int, Answer] = {order_id: UnknownOrder(order_id) for order_id in order_ids}
        issued: dict[int, tuple[Invoice, ...]] = {}
        for row in cursor:
            if row["id"] is not None:
                issued[row["order_id"]] = (*issued.get(row["order_id"], ()), Invoice(**row))
            elif len(order_ids) > 1:
                raise InvoicedMeanwhile(row["order_id"])
        if refused := [order_id for order_id in known if order_id not in issued]:
            for row in reversed(cursor.execute(INVOICES_OF, (refused,)).fetchall()):
                reason = EmptyOrder if row["id"] is None else partial(AlreadyInvoiced, invoice=Invoice(**row))
                answers[row["order_id"]] = reason(row["order_id"])
        return answers | issued
