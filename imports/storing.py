"""Write some customers, products or orders in one statement; return the conflicts that only the database finds."""

from collections.abc import Mapping, Sequence
from typing import Any, LiteralString

from psycopg import Connection
from psycopg.rows import tuple_row

from imports.columns import Row, TableName
from imports.refusals import Problem
from imports.table_file import Record

# Importing the same customer or product again brings it up to date.
_UPSERTS: Mapping[str, LiteralString] = {
    "customers": """
        INSERT INTO customers (id, company_name, tax_condition, address, city, country)
        SELECT * FROM unnest(%(id)s::text[], %(company_name)s::text[], %(tax_condition)s::text[], %(address)s::text[],
                             %(city)s::text[], %(country)s::text[])
        ON CONFLICT (id) DO UPDATE SET company_name = excluded.company_name, tax_condition = excluded.tax_condition,
            address = excluded.address, city = excluded.city, country = excluded.country
    """,
    "products": """
        INSERT INTO products (id, name, unit_price, iva_rate)
        SELECT * FROM unnest(%(id)s::integer[], %(name)s::text[], %(unit_price)s::numeric[], %(iva_rate)s::numeric[])
        ON CONFLICT (id) DO UPDATE SET name = excluded.name, unit_price = excluded.unit_price,
            iva_rate = excluded.iva_rate
    """,
}
_KNOWN: LiteralString = """
    SELECT (SELECT coalesce(array_agg(id), '{}') FROM orders WHERE id = ANY (%(order_id)s)),
           (SELECT coalesce(array_agg(id), '{}') FROM customers WHERE id = ANY (%(customer_id)s)),
           (SELECT coalesce(array_agg(id), '{}') FROM products WHERE id = ANY (%(product_id)s))
"""
_ORDERS: LiteralString = """
    WITH ordered AS (
        INSERT INTO orders (id, customer_id, ordered_on, currency)
        SELECT DISTINCT ON (order_id) order_id, customer_id, ordered_on, currency
        FROM unnest(%(order_id)s::bigint[], %(customer_id)s::text[], %(ordered_on)s::date[], %(currency)s::text[])
             AS l (order_id, customer_id, ordered_on, currency)
    )
    INSERT INTO order_lines (order_id, line_no, product_id, quantity, unit_price, discount)
    SELECT * FROM unnest(%(order_id)s::bigint[], %(line_no)s::integer[], %(product_id)s::integer[],
                         %(quantity)s::integer[], %(unit_price)s::numeric[], %(discount)s::numeric[])
"""


def store(connection: Connection[Any], table: TableName, records: Sequence[Record]) -> dict[int, list[Problem]]:
    """Write these records, which have no problems; return the problems of skipped records by a record's first line."""
    if not records:
        return {}
    if table != "orders":
        connection.execute(_UPSERTS[table], _columns([row for record in records for row in record.rows]))
        return {}
    refused = _unknown(connection, records)
    kept = [record for record in records if record.line not in refused]
    rows = [
        row | {"line_no": number, "currency": row["currency"].upper()}
        for record in kept
        for number, row in enumerate(record.rows, 1)
    ]
    if rows:
        connection.execute(_ORDERS, _columns(rows))
    return refused


def _unknown(connection: Connection[Any], records: Sequence[Record]) -> dict[int, list[Problem]]:
    """Return the missing references of these orders, and the orders that exist already."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        result = cursor.execute(_KNOWN, _columns([row for record in records for row in record.rows])).fetchone()
    assert result is not None  # noqa: S101 - a SELECT of three values has a row
    orders, customers, products = map(set, result)
    refused: dict[int, list[Problem]] = {}
    for record in records:
        first = record.rows[0]
        problems = []
        if first["order_id"] in orders:
            problems.append(Problem(record.line, "order_id", "there already", {"value": first["order_id"]}))
        if first["customer_id"] not in customers:
            problems.append(Problem(record.line, "customer_id", "no customer", {"value": first["customer_id"]}))
        problems += [
            Problem(row["line"], "product_id", "no product", {"value": row["product_id"]})
            for row in record.rows
            if row["product_id"] not in products
        ]
        if problems:
            refused[record.line] = problems
    return refused


def _columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}
