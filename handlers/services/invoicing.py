"""Turn an order into an invoice, inside the caller's transaction."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from psycopg import Connection
from psycopg.rows import class_row, tuple_row

from handlers.services import money
from handlers.services.invoice import Invoice, IssuerCondition, Kind, Letter, TaxCondition, letter_for
from handlers.services.invoicing_errors import AlreadyInvoiced, EmptyOrder, UnknownOrder, UnknownPointOfSale


def invoice_order(connection: Connection[Any], order_id: int, point_of_sale: int) -> Invoice:
    """Issue what the order becomes and return its invoice, or its credit note if all of it was taken back."""
    return issue(connection, order_id, point_of_sale)[0]


def issue(connection: Connection[Any], order_id: int, point_of_sale: int) -> tuple[Invoice, ...]:
    """Issue an invoice of what was sold and a credit note of what was taken back, once; never commits.

    Each has the next number of its point of sale, kind and letter.

    Numbers stay without gaps whatever the caller rolls back, because the point of sale is locked until the
    transaction (or the savepoint, undone) ends. Amounts are rounded here, line by line, in `money` and nowhere
    else: the rule can be proved there without a database, and the tables' checks refuse any other result.

    Two points of sale may race for the same orders: take orders in ascending id, or PostgreSQL may end one of the
    transactions as a deadlock, which is safe to run again.

    Raises `UnknownPointOfSale`, `UnknownOrder`, `EmptyOrder` or `AlreadyInvoiced`; nothing was written, and the
    transaction remains usable.
    """
    issuer = _lock_point_of_sale(connection, point_of_sale)
    order = _read_order(connection, order_id)
    letter = letter_for(issuer, order.tax_condition)
    issued = []
    for kind, part in _parts(order):
        stored = _store(connection, part, _draft(part, letter), point_of_sale, kind)
        if stored is None:
            raise AlreadyInvoiced(order_id, _invoice_of(connection, order_id))
        issued.append(stored)
    return tuple(issued)


@dataclass(frozen=True, slots=True)
class _Order:
    """An order with its lines as columns, the shape in which they go back to the database."""

    id: int
    customer_id: str
    currency: str
    tax_condition: TaxCondition
    product_ids: list[int]
    quantities: list[int]
    unit_prices: list[Decimal]
    discounts: list[Decimal]
    iva_rates: list[Decimal]


@dataclass(frozen=True, slots=True)
class _Draft:
    """What the invoice will say, number aside."""

    letter: Letter
    nets: list[Decimal]
    iva_rates: list[Decimal]
    ivas: list[Decimal]


def _lock_point_of_sale(connection: Connection[Any], point_of_sale: int) -> IssuerCondition:
    # NO KEY: whoever merely refers to the point of sale need not wait.
    query = "SELECT issuer_condition FROM points_of_sale WHERE id = %s FOR NO KEY UPDATE"
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(query, (point_of_sale,)).fetchone()
    if row is None:
        raise UnknownPointOfSale(point_of_sale)
    issuer: IssuerCondition = row[0]
    return issuer


def _read_order(connection: Connection[Any], order_id: int) -> _Order:
    query = """
        SELECT o.id, o.customer_id, o.currency, c.tax_condition, l.*
        FROM orders o
        JOIN customers c ON c.id = o.customer_id
        CROSS JOIN LATERAL (
            SELECT coalesce(array_agg(l.product_id ORDER BY l.line_no), '{}') AS product_ids,
                   coalesce(array_agg(l.quantity ORDER BY l.line_no), '{}') AS quantities,
                   coalesce(array_agg(l.unit_price ORDER BY l.line_no), '{}') AS unit_prices,
                   coalesce(array_agg(l.discount ORDER BY l.line_no), '{}') AS discounts,
                   coalesce(array_agg(p.iva_rate ORDER BY l.line_no), '{}') AS iva_rates
            FROM order_lines l
            JOIN products p ON p.id = l.product_id
            WHERE l.order_id = o.id
        ) l
        WHERE o.id = %s
    """
    with connection.cursor(row_factory=class_row(_Order)) as cursor:
        order = cursor.execute(query, (order_id,)).fetchone()
    if order is None:
        raise UnknownOrder(order_id)
    if not order.product_ids:
        raise EmptyOrder(order_id)
    return order


def _parts(order: _Order) -> Iterator[tuple[Kind, _Order]]:
    """Yield the lines that were sold, for an invoice, and those that were taken back, for a credit note."""
    signs: tuple[tuple[Kind, int], ...] = (("invoice", 1), ("credit_note", -1))
    for kind, sign in signs:
        if lines := [place for place, quantity in enumerate(order.quantities) if quantity * sign > 0]:
            yield (
                kind,
                replace(
                    order,
                    product_ids=[order.product_ids[place] for place in lines],
                    quantities=[order.quantities[place] * sign for place in lines],
                    unit_prices=[order.unit_prices[place] for place in lines],
                    discounts=[order.discounts[place] for place in lines],
                    iva_rates=[order.iva_rates[place] for place in lines],
                ),
            )


def _draft(order: _Order, letter: Letter) -> _Draft:
    nets = [
        money.line_net(unit_price, quantity, discount)
        for unit_price, quantity, discount in zip(order.unit_prices, order.quantities, order.discounts, strict=True)
    ]
    rates = [Decimal(0)] * len(nets) if letter == "C" else order.iva_rates
    ivas = [money.iva(net, rate) for net, rate in zip(nets, rates, strict=True)]
    return _Draft(letter, nets, rates, ivas)


def _store(connection: Connection[Any], order: _Order, draft: _Draft, point_of_sale: int, kind: Kind) -> Invoice | None:
    # The unique order decides, so the loser of a race between two points of sale gets no row. The counter follows the
    # invoice, not the reverse: an order that turns out to be invoiced has then used up no number.
    query = """
        WITH invoice AS (
            INSERT INTO invoices (order_id, kind, point_of_sale, letter, number, customer_id, net_total, iva_total,
                                  total, currency)
            VALUES (%(order_id)s, %(kind)s, %(point_of_sale)s, %(letter)s,
                    1 + coalesce((SELECT last_number FROM invoice_counters
                                  WHERE (point_of_sale, kind, letter) = (%(point_of_sale)s, %(kind)s, %(letter)s)), 0),
                    %(customer_id)s, %(net_total)s, %(iva_total)s, %(total)s, %(currency)s)
            ON CONFLICT (order_id, kind) DO NOTHING
            RETURNING *
        ), counter AS (
            INSERT INTO invoice_counters (point_of_sale, kind, letter, last_number)
            SELECT point_of_sale, kind, letter, number FROM invoice
            ON CONFLICT (point_of_sale, kind, letter) DO UPDATE SET last_number = excluded.last_number
        ), lines AS (
            INSERT INTO invoice_lines (invoice_id, product_id, quantity, unit_price, discount, net, iva_rate, iva,
                                       line_no)
            SELECT invoice.id, line.*
            FROM invoice,
                 unnest(%(product_ids)s::integer[], %(quantities)s::integer[], %(unit_prices)s::numeric[],
                        %(discounts)s::numeric[], %(nets)s::numeric[], %(iva_rates)s::numeric[], %(ivas)s::numeric[])
                 WITH ORDINALITY AS line
        )
        SELECT id, kind, order_id, letter, point_of_sale, number, net_total, iva_total, total, %(lines)s AS lines
        FROM invoice
    """
    net_total, iva_total = sum(draft.nets, Decimal(0)), sum(draft.ivas, Decimal(0))
    facts = {
        "order_id": order.id,
        "kind": kind,
        "point_of_sale": point_of_sale,
        "letter": draft.letter,
        "customer_id": order.customer_id,
        "currency": order.currency,
        "net_total": net_total,
        "iva_total": iva_total,
        "total": net_total + iva_total,
        "lines": len(draft.nets),
        "product_ids": order.product_ids,
        "quantities": order.quantities,
        "unit_prices": order.unit_prices,
        "discounts": order.discounts,
        "nets": draft.nets,
        "iva_rates": draft.iva_rates,
        "ivas": draft.ivas,
    }
    with connection.cursor(row_factory=class_row(Invoice)) as cursor:
        return cursor.execute(query, facts).fetchone()


def _invoice_of(connection: Connection[Any], order_id: int) -> Invoice:
    query = """
        SELECT id, kind, order_id, letter, point_of_sale, number, net_total, iva_total, total,
               (SELECT count(*) FROM invoice_lines WHERE invoice_id = invoices.id) AS lines
        FROM invoices
        WHERE order_id = %s
        ORDER BY kind DESC
        LIMIT 1
    """
    with connection.cursor(row_factory=class_row(Invoice)) as cursor:
        (invoice,) = cursor.execute(query, (order_id,)).fetchall()
    return invoice
