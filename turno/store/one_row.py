"""Read the answer of a statement that always has one row, such as the call of a function."""

from typing import Any, LiteralString

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row


def row_of(
    session: psycopg.Connection[Any],
    statement: LiteralString | sql.Composed,
    parameters: tuple[Any, ...] = (),
    *,
    prepare: bool | None = None,
) -> tuple[Any, ...]:
    """Return the row, as a tuple whatever a handler has made its session return."""
    with session.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(statement, parameters, prepare=prepare).fetchone()
    assert row is not None, "the statement always has a row"  # noqa: S101
    return row


def value_of(session: psycopg.Connection[Any], statement: LiteralString | sql.Composed, *parameters: Any) -> Any:
    """Return the only value of the row."""
    return row_of(session, statement, parameters)[0]
