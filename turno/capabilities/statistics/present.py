"""Read open jobs and living workers, as the operator."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
from psycopg.rows import class_row


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """Open jobs of one backend, queue and type; `oldest_wait` is in seconds, 0 without a ready job.

    Types without a handler are the type '(other)' in a queue of that name. `tenant` is empty for the sum of tenants.
    """

    tenant: str
    backend: str
    queue: str
    type: str
    scheduled: int
    waiting: int  # for the jobs before them of their concurrency keys
    ready: int
    running: int
    oldest_wait: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Workers of one backend; `silent` ones have an old heartbeat."""

    backend: str
    alive: int
    silent: int


def queued(
    operator: psycopg.Connection[Any],
    *,
    tenants: bool = False,
    tenant: str | None = None,
    companies: Sequence[str] | None = None,
) -> list[Queued]:
    """Return depth and oldest wait of each backend, queue and type, for each tenant or their sum.

    `tenant` and `companies` select jobs.
    """
    with operator.cursor(row_factory=class_row(Queued)) as cursor:
        return cursor.execute(
            """
            SELECT CASE WHEN %(tenants)s THEN n.slug ELSE '' END AS tenant, t.backend,
                   CASE WHEN h.type IS NULL THEN '(other)' ELSE t.queue END AS queue,
                   coalesce(h.type, '(other)') AS type,
                   coalesce(sum(t.tickets) FILTER (WHERE t.state IN ('scheduled', 'review')), 0)::bigint AS scheduled,
                   coalesce(sum(t.tickets) FILTER (WHERE t.state IN ('waiting', 'parts')), 0)::bigint AS waiting,
                   coalesce(sum(t.tickets) FILTER (WHERE t.state = 'ready'), 0)::bigint AS ready,
                   coalesce(sum(t.tickets) FILTER (WHERE t.state = 'running'), 0)::bigint AS running,
                   greatest(0, coalesce(extract(epoch FROM clock_timestamp()
                       - min(t.oldest) FILTER (WHERE t.state = 'ready')), 0))::float AS oldest_wait
            FROM ticket_counts t LEFT JOIN handlers h ON h.type = t.type LEFT JOIN tenants n ON n.id = t.tenant_id
            LEFT JOIN companies c ON c.id = n.company_id
            WHERE (%(tenant)s::text IS NULL OR n.slug = %(tenant)s)
              AND (%(companies)s::text[] IS NULL OR c.slug = ANY (%(companies)s))
            GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
            """,
            {"tenants": tenants, "tenant": tenant, "companies": None if companies is None else list(companies)},
        ).fetchall()


def served(operator: psycopg.Connection[Any], dead_after: timedelta) -> list[Served]:
    """Return the workers of each backend."""
    with operator.cursor(row_factory=class_row(Served)) as cursor:
        return cursor.execute(
            """
            SELECT b.name AS backend,
                   count(w.id) FILTER (WHERE w.alive_at >= clock_timestamp() - %(dead_after)s) AS alive,
                   count(w.id) FILTER (WHERE w.alive_at < clock_timestamp() - %(dead_after)s) AS silent
            FROM backends b LEFT JOIN workers w ON w.backend = b.name
            GROUP BY b.name ORDER BY b.name
            """,
            {"dead_after": dead_after},
        ).fetchall()
