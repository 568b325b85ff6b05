"""Read whether each tenant gets its turn, as the operator."""

from typing import Any

import psycopg
from psycopg.rows import dict_row


def shares(operator: psycopg.Connection[Any]) -> list[dict[str, Any]]:
    """Return waits and shares of every tenant with work now or in the last quarter of an hour, worst wait first.

    `share` is of all working time; `fair_share` follows from the tenant's weight among these tenants.
    """
    with operator.cursor(row_factory=dict_row) as cursor:
        cursor.execute(
            """
            SELECT slug, waiting, running, round(extract(epoch FROM oldest_wait), 1)::float AS oldest_wait,
                   ended, wait_p50_ms, wait_p95_ms, round(share, 3)::float AS share,
                   round(fair_share, 3)::float AS fair_share
            FROM fairness ORDER BY greatest(wait_p95_ms, 1000 * extract(epoch FROM oldest_wait)) DESC NULLS LAST, slug
            """
        )
        return cursor.fetchall()
