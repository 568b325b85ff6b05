"""Read whether each tenant gets its turn, as the operator."""

from typing import Any

import psycopg
from psycopg.rows import dict_row


def shares(operator: psycopg.Connection[Any]) -> list[dict[str, Any]]:
    """Return waits and shares of every tenant with work now or in the last quarter of an hour, worst wait first.

    `share` is of all working time; `fair_share` is what the tenant's weight gives it among these tenants.
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


def evenness(operator: psycopg.Connection[Any]) -> float:
    """Return Jain's index of the shares over the fair shares: 1 if all are served alike, 1/n if one of n has all.

    Who waits for nothing has all that it wants, and is left out.
    """
    row = operator.execute(
        """
        WITH recent AS (
            SELECT scope AS tenant_id, sum(run_ms)::float8 AS run_ms FROM statistics
            WHERE scope > 0 AND minute > now() - interval '15 minutes' GROUP BY scope
        ), served AS (
            SELECT coalesce(r.run_ms, 0) / n.weight AS ratio
            FROM waiting_tenants w JOIN tenants n ON n.id = w.tenant_id LEFT JOIN recent r ON r.tenant_id = w.tenant_id
        )
        SELECT coalesce(sum(ratio) ^ 2 / nullif(count(*) * sum(ratio ^ 2), 0), 1) FROM served
        """
    ).fetchone()
    assert row is not None  # noqa: S101 - an aggregate returns a row
    return float(row[0])
