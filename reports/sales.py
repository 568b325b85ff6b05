"""One branch's sales: by customer, month, currency and IVA rate, less credit notes."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from psycopg import Connection, sql
from psycopg.rows import class_row

FETCHED = 2000  # rows of one FETCH

_SALES = """
DECLARE sales NO SCROLL CURSOR FOR
SELECT i.customer_id, c.company_name, to_char(i.issued_on, 'YYYY-MM') AS month, i.currency, l.iva_rate,
       count(DISTINCT i.id) AS documents, sum(l.net * s.sign) AS net, sum(l.iva * s.sign) AS iva
FROM {schema}.invoices i
JOIN {schema}.customers c ON c.id = i.customer_id
JOIN {schema}.invoice_lines l ON l.invoice_id = i.id
CROSS JOIN LATERAL (SELECT CASE i.kind WHEN 'invoice' THEN 1 ELSE -1 END AS sign) s
WHERE i.issued_on BETWEEN {since} AND {until}
GROUP BY i.customer_id, c.company_name, month, i.currency, l.iva_rate
ORDER BY i.customer_id, month, i.currency, l.iva_rate
"""


@dataclass(frozen=True, slots=True)
class Sale:
    """One line of the report."""

    customer_id: str
    company_name: str
    month: str
    currency: str
    iva_rate: Decimal
    documents: int
    net: Decimal
    iva: Decimal

    @property
    def total(self) -> Decimal:
        """What customers pay."""
        return self.net + self.iva

    @property
    def row(self) -> tuple[str | Decimal | int, ...]:
        """The cells after the branch's."""
        head = (self.customer_id, self.company_name, self.month, self.currency)
        return (*head, self.iva_rate, self.documents, self.net, self.iva, self.total)


def sales_of_branch(connection: Connection[Any], schema: str, since: date, until: date) -> Iterator[Sale]:
    """Yield a branch's sales by a server cursor: at most FETCHED rows are in memory.

    The connection is in a transaction; the cursor ends with it, or when all was read.
    """
    statement = sql.SQL(_SALES).format(
        schema=sql.Identifier(schema), since=sql.Literal(since), until=sql.Literal(until)
    )
    connection.execute(statement)
    with connection.cursor(row_factory=class_row(Sale)) as cursor:
        while rows := cursor.execute(sql.SQL("FETCH {} FROM sales").format(sql.Literal(FETCHED))).fetchall():
            yield from rows
    connection.execute("CLOSE sales")
