"""Turn orders into invoices, inside the caller's transaction."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from psycopg import Connection
from psycopg.rows import class_row, scalar_row

from handlers.services import money
from handlers.services.invoice import Invoice, IssuerCondition, Kind, TaxCondition, letter_for
from handlers.services.invoice_storing import LOCK, Draft, Line, invoices_of, store
from handlers.services.invoicing_errors import (
    AlreadyInvoiced,
    EmptyOrder,
    InvoicedMeanwhile,
    InvoicingError,
    UnknownOrder,
    UnknownPointOfSale,
)

Issued = tuple[Invoice, ...]
Answers = Mapping[int, Issued | InvoicingError]


def invoice_order(connection: Connection[Any], order_id: int, point_of_sale: int) -> Invoice:
    """Issue what the order becomes and return its invoice, or its credit note if all of it was taken back."""
    return issue(connection, order_id, point_of_sale)[0]


def issue(connection: Connection[Any], order_id: int, point_of_sale: int) -> Issued:
    """Issue what one order becomes, as `issue_all` does; raises what that would return as its error."""
    answer = issue_all(connection, [order_id], point_of_sale)[order_id]
    if isinstance(answer, InvoicingError):
        raise answer
    return answer


def issue_all(connection: Connection[Any], order_ids: Sequence[int], point_of_sale: int) -> Answers:
    """Issue an invoice of what was sold and a credit note of what was taken back, once for each order; never commits.

    Returns for each order what was issued, or why nothing was: `UnknownOrder`, `EmptyOrder` or `AlreadyInvoiced`. Each
    invoice has the next number of its point of sale, kind and letter, in the order of `order_ids`.

    Numbers stay without gaps whatever the caller rolls back, because the point of sale is locked until the transaction
    (or the savepoint, undone) ends. Orders are read after that lock: an order that changes while the caller waits for
    it is invoiced as it is now. Amounts are rounded line by line, in `money` and nowhere else: the rule can be proved
    there without a database, and the tables' checks refuse any other result.

    Two points of sale may race for the same orders: take orders in ascending id, or PostgreSQL may end one of the
    transactions as a deadlock, which is safe to run again. Who loses the race for one of several orders raises
    `InvoicedMeanwhile`: undo, and take them one by one. Raises `UnknownPointOfSale`, too; nothing was written then.
    """
    issuer, orders = _read_locked(connection, order_ids, point_of_sale)
    drafts = [draft for order_id in order_ids for draft in _drafts(orders.get(order_id), issuer)]
    issued: dict[int, Issued] = {}
    for invoice in store(connection, drafts, point_of_sale):
        issued[invoice.order_id] = (*issued.get(invoice.order_id, ()), invoice)
    lost = {draft.order_id for draft in drafts} - set(issued)
    if lost and len(order_ids) > 1:
        raise InvoicedMeanwhile(min(lost))
    return {
        order_id: issued.get(order_id) or _why_not(connection, order_id, orders.get(order_id)) for order_id in order_ids
    }


@dataclass(frozen=True, slots=True)
class _Order:
    """An order with its lines, as columns."""

    id: int
    customer_id: str
    currency: str
    tax_condition: TaxCondition
    invoiced: bool
    product_ids: list[int]
    quantities: list[int]
    unit_prices: list[Decimal]
    discounts: list[Decimal]
    iva_rates: list[Decimal]


ORDERS = """
    SELECT o.id, o.customer_id, o.currency, c.tax_condition,
           EXISTS (SELECT FROM invoices i WHERE i.order_id = o.id) AS invoiced, l.*
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
    WHERE o.id = ANY (%s)
"""


def _read_locked(
    connection: Connection[Any], order_ids: Sequence[int], point_of_sale: int
) -> tuple[IssuerCondition, dict[int, _Order]]:
    """Lock the point of sale, then read the orders; both statements are sent together, as other sessions wait."""
    with connection.cursor(row_factory=scalar_row) as lock, connection.cursor(row_factory=class_row(_Order)) as cursor:
        with connection.pipeline():
            lock.execute(LOCK, (point_of_sale,))
            cursor.execute(ORDERS, (list(order_ids),))
        issuer: IssuerCondition | None = lock.fetchone()
        if issuer is None:
            raise UnknownPointOfSale(point_of_sale)
        return issuer, {order.id: order for order in cursor}


def _drafts(order: _Order | None, issuer: IssuerCondition) -> Iterator[Draft]:
    """Yield the lines that were sold, for an invoice, and those that were taken back, for a credit note."""
    if order is None or order.invoiced:
        return
    letter = letter_for(issuer, order.tax_condition)
    signs: tuple[tuple[Kind, int], ...] = (("invoice", 1), ("credit_note", -1))
    for kind, sign in signs:
        lines = [
            _line(order, place, sign, taxed=letter != "C")
            for place, quantity in enumerate(order.quantities)
            if quantity * sign > 0
        ]
        if lines:
            yield Draft(order.id, kind, letter, order.customer_id, order.currency, tuple(lines))


def _line(order: _Order, place: int, sign: int, *, taxed: bool) -> Line:
    quantity, unit_price, discount = order.quantities[place] * sign, order.unit_prices[place], order.discounts[place]
    rate = order.iva_rates[place] if taxed else Decimal(0)
    net = money.line_net(unit_price, quantity, discount)
    return Line(order.product_ids[place], quantity, unit_price, discount, net, rate, money.iva(net, rate))


def _why_not(connection: Connection[Any], order_id: int, order: _Order | None) -> InvoicingError:
    if order is None:
        return UnknownOrder(order_id)
    if invoices := invoices_of(connection, order_id):
        return AlreadyInvoiced(order_id, invoices[0])
    return EmptyOrder(order_id)
