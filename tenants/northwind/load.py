"""Fill a branch's tables with its share of the Northwind orders; SOURCE.md lists the invented data."""

import csv
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, LiteralString

from psycopg import Connection
from psycopg.rows import scalar_row

from tenants.northwind import money

BRANCH_SHARES: Final = (range(500), range(500, 700), range(700, 830))

_TAX_CONDITIONS: Final[tuple[str, ...]] = (
    "registered",
    "final_consumer",
    "registered",
    "monotributo",
    "exempt",
)
_REDUCED_IVA_EVERY: Final = 5


def load_orders(connection: Connection[Any], share: range) -> None:
    """Add the customers, products and points of sale, and a share of the orders; existing rows stay unchanged.

    `share` counts the orders by ascending id, from 0; `BRANCH_SHARES` deals them out to three branches.
    """
    with connection.transaction():
        # Concurrent loads take turns: each copies only the missing rows.
        connection.execute("LOCK TABLE orders IN SHARE ROW EXCLUSIVE MODE")
        _load_points_of_sale(connection)
        _load_customers(connection)
        _load_products(connection)
        _load_share(connection, share)


def reset_invoices(connection: Connection[Any]) -> None:
    """Remove every invoice and start the numbers again, once the invoicing under way has ended."""
    with connection.transaction():
        connection.execute("SELECT FROM points_of_sale ORDER BY id FOR NO KEY UPDATE")
        connection.execute("DELETE FROM invoice_lines")
        connection.execute("DELETE FROM invoices")
        connection.execute("DELETE FROM invoice_counters")


def expected_net_total(share: range) -> Decimal:
    """Add up the share's lines, each rounded to the cent, from the file alone."""
    lines = _order_lines([order_id for order_id, *_ in _orders(share)])
    return sum((money.line_net(price, quantity, discount) for *_, quantity, price, discount in lines), Decimal(0))


def _load_points_of_sale(connection: Connection[Any]) -> None:
    connection.execute("""
        INSERT INTO points_of_sale (id, issuer_condition)
        VALUES (1, 'registered'), (2, 'monotributo')
        ON CONFLICT (id) DO NOTHING
    """)


def _load_customers(connection: Connection[Any]) -> None:
    known = _column(connection, "SELECT id FROM customers")
    _copy(
        connection,
        "COPY customers (id, company_name, tax_condition, address, city, country) FROM STDIN",
        (customer for customer in _customers() if customer[0] not in known),
    )


def _load_products(connection: Connection[Any]) -> None:
    known = _column(connection, "SELECT id FROM products")
    _copy(
        connection,
        "COPY products (id, name, unit_price, iva_rate) FROM STDIN",
        (product for product in _products() if product[0] not in known),
    )


def _load_share(connection: Connection[Any], share: range) -> None:
    known = _column(connection, "SELECT id FROM orders")
    orders = [order for order in _orders(share) if order[0] not in known]
    _copy(connection, "COPY orders (id, customer_id, ordered_on, currency) FROM STDIN", orders)
    _copy(
        connection,
        "COPY order_lines (order_id, line_no, product_id, quantity, unit_price, discount) FROM STDIN",
        _order_lines([order[0] for order in orders]),
    )


def _column(connection: Connection[Any], query: LiteralString) -> set[int | str]:
    with connection.cursor(row_factory=scalar_row) as cursor:
        return set(cursor.execute(query))


def _copy(connection: Connection[Any], statement: LiteralString, rows: Iterable[tuple[object, ...]]) -> None:
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row(row)


def _customers() -> Iterator[tuple[str, str, str, str, str, str]]:
    for index, row in enumerate(_rows("customers.csv")):
        tax_condition = _TAX_CONDITIONS[index % len(_TAX_CONDITIONS)]
        yield row["customer_id"], row["company_name"], tax_condition, row["address"], row["city"], row["country"]


def _products() -> Iterator[tuple[int, str, Decimal, Decimal]]:
    for index, row in enumerate(_rows("products.csv"), start=1):
        iva_rate = Decimal("21.00") if index % _REDUCED_IVA_EVERY else Decimal("10.50")
        yield int(row["product_id"]), row["product_name"], Decimal(row["unit_price"]), iva_rate


def _orders(share: range) -> list[tuple[int, str, str, str]]:
    orders = sorted((int(row["order_id"]), row["customer_id"], row["order_date"], "USD") for row in _rows("orders.csv"))
    return orders[share.start : share.stop : share.step]


def _order_lines(order_ids: Collection[int]) -> Iterator[tuple[int, int, int, int, Decimal, Decimal]]:
    wanted, written = set(order_ids), Counter[int]()
    for row in _rows("order_details.csv"):
        order_id = int(row["order_id"])
        if order_id in wanted:
            written[order_id] += 1
            yield (
                order_id,
                written[order_id],
                int(row["product_id"]),
                int(row["quantity"]),
                Decimal(row["unit_price"]),
                Decimal(row["discount"]),
            )


def _rows(name: str) -> Iterator[dict[str, str]]:
    with Path(__file__).with_name(name).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)
