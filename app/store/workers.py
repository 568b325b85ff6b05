"""Read the list of workers, as the operator."""

from typing import Any

import psycopg
from psycopg.rows import dict_row

Rows = list[dict[str, Any]]


def listed(operator: psycopg.Connection[Any]) -> Rows:
    """Return every worker that was not declared dead, with the seconds since it was heard of, the most silent first."""
    with operator.cursor(row_factory=dict_row) as cursor:
        cursor.execute(
            """
            SELECT host, pid, backend, started_at,
                   round(extract(epoch FROM clock_timestamp() - alive_at), 1)::float AS silent
            FROM workers ORDER BY alive_at
            """
        )
        return cursor.fetchall()
