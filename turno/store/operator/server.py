"""Read how the database server fares with Turno's tables, as the operator."""

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import class_row


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Numbers of the server; ages are in seconds.

    `oldest_transaction` needs membership in pg_read_all_stats, which lets the operator's login see other logins'
    transactions; otherwise None. `oldest_writer` is in transactions: how many were begun since the oldest that writes.
    `relay_lag` is how long the oldest job waits to be published to the broker.
    """

    notify_queue: float
    oldest_writer: int
    oldest_transaction: float | None
    relay_lag: float
    steady_maintenance: bool
    open_dead_letters: int
    in_review: int


def server(operator: psycopg.Connection[Any]) -> Server:
    """Return how the server fares."""
    with operator.cursor(row_factory=class_row(Server)) as cursor:
        found = cursor.execute(
            """
            SELECT pg_notification_queue_usage() AS notify_queue,
                   pg_snapshot_xmax(s)::text::bigint - pg_snapshot_xmin(s)::text::bigint AS oldest_writer,
                   CASE WHEN pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') THEN (
                       SELECT greatest(0, extract(epoch FROM clock_timestamp() - min(xact_start))) FROM pg_stat_activity
                       WHERE datname = current_database() AND backend_xmin IS NOT NULL)::float END
                       AS oldest_transaction,
                   greatest(0, coalesce(extract(epoch FROM clock_timestamp() - b.unpublished_since), 0))::float
                       AS relay_lag,
                   EXISTS (SELECT FROM leases WHERE name = 'steady sweeps' AND until > clock_timestamp())
                       AS steady_maintenance,
                   b.open_dead_letters,
                   (SELECT coalesce(sum(jobs), 0) FROM jobs_in_review)::bigint AS in_review
            FROM pg_current_snapshot() AS s CROSS JOIN backlogs b
            """
        ).fetchone()
    assert found is not None, "pg_current_snapshot() returns a row"  # noqa: S101
    return found


def dead_tuples(operator: psycopg.Connection[Any]) -> dict[str, int]:
    """Return how many dead rows each table of the control schema has, as its statistics say."""
    rows = operator.execute(
        """
        SELECT c.relname, pg_stat_get_dead_tuples(c.oid) FROM pg_class c
        WHERE c.relnamespace = 'turno'::regnamespace AND c.relkind = 'r'
          AND c.relname IN ('tickets', 'outcome_batches', 'statistics', 'workers', 'leases', 'rate_limits')
        ORDER BY c.relname
        """
    )
    return dict(rows.fetchall())
