"""Read what an installation holds now, as the operator: counts and ages, no tenant's data.

`companies` are those whose tenants are counted; None counts all.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString

from psycopg.rows import class_row, dict_row

from turno.store.operator.outcome_counts import Operator, scopes

Companies = Sequence[str] | None
Row = dict[str, Any]

# The tenants that are seen; every statement below begins with it.
SEEN: LiteralString = """
WITH seen AS (
    SELECT n.id, n.slug, c.slug AS company, n.weight, n.cap, n.paused_at, n.backend
    FROM tenants n JOIN companies c ON c.id = n.company_id
    WHERE n.state = 'active' AND (%(companies)s::text[] IS NULL OR c.slug = ANY (%(companies)s))
)
"""
# Those, each with what it has now and its share of the last quarter of an hour.
SHARES: LiteralString = (
    SEEN  # noqa: S608 - a constant
    + """
, shares AS MATERIALIZED (SELECT * FROM fairness)
SELECT n.slug, n.company, n.weight, n.cap, n.paused_at, n.backend, coalesce(f.waiting, 0) AS waiting,
       coalesce(f.running, 0) AS running, f.oldest_wait, coalesce(f.ended, 0) AS ended,
       f.wait_p50_ms, f.wait_p95_ms, f.share::float8 AS share, f.fair_share::float8 AS fair_share
FROM seen n LEFT JOIN shares f ON f.tenant_id = n.id
"""
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCount:
    """What waits in one queue, and since when the oldest of it does."""

    queue: str
    types: list[str]
    waiting: int
    scheduled: int
    running: int
    review: int
    oldest: datetime | None


def queues(operator: Operator, companies: Companies) -> list[QueueCount]:
    """Return every queue that holds anything, the one whose oldest job has waited longest first."""
    with operator.cursor(row_factory=class_row(QueueCount)) as cursor:
        return cursor.execute(
            SEEN  # noqa: S608 - a constant, see above
            + """
            SELECT k.queue, array_agg(DISTINCT k.type::text ORDER BY k.type::text) AS types,
                   coalesce(sum(k.tickets) FILTER (WHERE k.state IN ('ready', 'waiting', 'parts')), 0)::bigint
                       AS waiting,
                   coalesce(sum(k.tickets) FILTER (WHERE k.state = 'scheduled'), 0)::bigint AS scheduled,
                   coalesce(sum(k.tickets) FILTER (WHERE k.state = 'running'), 0)::bigint AS running,
                   coalesce(sum(k.tickets) FILTER (WHERE k.state = 'review'), 0)::bigint AS review,
                   min(k.oldest) FILTER (WHERE k.state = 'ready') AS oldest
            FROM ticket_counts k
            WHERE %(companies)s::text[] IS NULL OR k.tenant_id IN (SELECT id FROM seen)
            GROUP BY k.queue ORDER BY oldest NULLS LAST, k.queue
            """,
            {"companies": companies},
        ).fetchall()


def lanes(
    operator: Operator, companies: Companies, *, queue: str = "", job_type: str = "", tenant: str = ""
) -> list[Row]:
    """Return what each queue, type and backend holds, the oldest first; an empty name leaves it free."""
    with operator.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(
            SEEN  # noqa: S608 - a constant, see above
            + """
            SELECT k.queue, k.type, k.backend, count(DISTINCT k.tenant_id) AS tenants,
                   coalesce(sum(k.tickets) FILTER (WHERE k.state IN ('ready', 'waiting', 'parts')), 0)::bigint
                       AS waiting,
                   coalesce(sum(k.tickets) FILTER (WHERE k.state = 'scheduled'), 0)::bigint AS scheduled,
                   coalesce(sum(k.tickets) FILTER (WHERE k.state = 'running'), 0)::bigint AS running,
                   coalesce(sum(k.tickets) FILTER (WHERE k.state = 'review'), 0)::bigint AS review,
                   min(k.oldest) FILTER (WHERE k.state = 'ready') AS oldest
            FROM ticket_counts k
            WHERE k.tenant_id IN (SELECT id FROM seen WHERE %(tenant)s = '' OR slug = %(tenant)s)
              AND (%(queue)s = '' OR k.queue = %(queue)s) AND (%(type)s = '' OR k.type = %(type)s)
            GROUP BY k.queue, k.type, k.backend ORDER BY oldest NULLS LAST, k.queue, k.type, k.backend
            """,
            {"companies": companies, "queue": queue, "type": job_type, "tenant": tenant},
        ).fetchall()


def ended_lately(operator: Operator, companies: Companies) -> Counter[str]:
    """Return the number of outcomes of the last hour, by outcome."""
    rows = operator.execute(
        """
        SELECT outcome, sum(outcomes)::bigint FROM statistics
        WHERE scope = ANY (%s) AND minute >= date_trunc('minute', now() - interval '1 hour') GROUP BY outcome
        """,
        (scopes(operator, companies),),
    )
    return Counter(dict(rows.fetchall()))


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantFilter:
    """Which tenants are listed: by the beginning of their name, and whether they wait or are paused."""

    q: str = ""
    show: str = ""
    after: str = ""
    limit: int = 50


def tenants(operator: Operator, companies: Companies, wanted: TenantFilter) -> list[Row]:
    """Return a page of tenants by name, each with what it has now and its share of the last quarter of an hour."""
    with operator.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(
            SHARES
            + """
            WHERE starts_with(n.slug, %(q)s) AND n.slug COLLATE "C" > %(after)s
              AND CASE %(show)s WHEN 'paused' THEN n.paused_at IS NOT NULL WHEN 'waiting' THEN f.waiting > 0
                                WHEN 'running' THEN f.running > 0 ELSE true END
            ORDER BY n.slug COLLATE "C" LIMIT %(limit)s
            """,
            {"companies": companies, "q": wanted.q, "show": wanted.show, "after": wanted.after, "limit": wanted.limit},
        ).fetchall()


def worst_tenants(operator: Operator, companies: Companies, limit: int) -> list[Row]:
    """Return the tenants that wait longest, as `tenants` does, worst first."""
    with operator.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(
            SHARES
            + """
            WHERE f.tenant_id IS NOT NULL
            ORDER BY greatest(f.wait_p95_ms, 1000 * extract(epoch FROM f.oldest_wait)) DESC NULLS LAST, n.slug
            LIMIT %(limit)s
            """,
            {"companies": companies, "limit": limit},
        ).fetchall()


def running(operator: Operator, companies: Companies, limit: int) -> list[Row]:
    """Return jobs that workers hold, of the tenants that are seen."""
    with operator.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(
            """
            SELECT worker_id, job_id, type, attempt, tenant FROM open_jobs
            WHERE state = 'running' AND (%(companies)s::text[] IS NULL OR company = ANY (%(companies)s))
            ORDER BY worker_id, job_id LIMIT %(limit)s
            """,
            {"companies": companies, "limit": limit},
        ).fetchall()
