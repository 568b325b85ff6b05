"""Read counts and ages of jobs, queues and tenants with the operator's login; no tenant's data.

Only the tenants of `companies` are counted; None counts the tenants of all companies.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, LiteralString

from psycopg.rows import dict_row

from turno.store.operator.outcome_counts import Operator, scopes

Companies = Collection[str] | None
Row = dict[str, Any]

# The first part of every statement below: the tenants of the companies.
_SEEN: LiteralString = """
WITH seen AS (
    SELECT n.*, c.slug AS company FROM tenants n JOIN companies c ON c.id = n.company_id
    WHERE n.state = 'active' AND (%(companies)s::text[] IS NULL OR c.slug = ANY (%(companies)s))
)
"""
_TENANTS: LiteralString = """
, shares AS MATERIALIZED (SELECT * FROM fairness)
SELECT n.slug AS tenant, n.company, n.paused_at, n.weight, n.cap, n.jobs_per_day, n.backend,
       n.alert_failure_percent::float8, n.alert_wait_minutes,
       coalesce(f.waiting, 0) AS waiting, coalesce(f.running, 0) AS running,
       extract(epoch FROM f.oldest_wait)::float8 AS oldest_wait, coalesce(f.ended, 0) AS ended,
       f.wait_p50_ms, f.wait_p95_ms, f.share::float8 AS share, f.fair_share::float8 AS fair_share
FROM seen n LEFT JOIN shares f ON f.tenant_id = n.id
"""


def tenants(
    operator: Operator, companies: Companies, *, begins: str = "", show: str = "", after: str = "", limit: int
) -> list[Row]:
    """Return a page of tenants by name, each with its settings, its jobs and its share of the last 15 minutes.

    `begins` is the beginning of the name, and `show` is waiting, running, paused, or empty for all tenants.
    """
    where: LiteralString = """
        WHERE starts_with(n.slug, %(begins)s) AND n.slug COLLATE "C" > %(after)s
          AND CASE %(show)s WHEN 'paused' THEN n.paused_at IS NOT NULL WHEN 'waiting' THEN f.waiting > 0
                            WHEN 'running' THEN f.running > 0 ELSE true END
        ORDER BY n.slug COLLATE "C" LIMIT %(limit)s
    """
    return _rows(operator, _TENANTS + where, companies, begins=begins, show=show, after=after, limit=limit)


def tenant(operator: Operator, companies: Companies, slug: str) -> Row | None:
    """Return one tenant as `tenants` does, or None."""
    return next(iter(_rows(operator, _TENANTS + "WHERE n.slug = %(slug)s", companies, slug=slug)), None)


def worst_tenants(operator: Operator, companies: Companies, limit: int) -> list[Row]:
    """Return the tenants with the longest waits as `tenants` does, the longest first."""
    where: LiteralString = """
        WHERE f.tenant_id IS NOT NULL
        ORDER BY greatest(f.wait_p95_ms, 1000 * extract(epoch FROM f.oldest_wait)) DESC NULLS LAST, n.slug
        LIMIT %(limit)s
    """
    return _rows(operator, _TENANTS + where, companies, limit=limit)


def lanes(
    operator: Operator, companies: Companies, *, queue: str = "", job_type: str = "", tenant: str = ""
) -> list[Row]:
    """Return the counts of each queue, type and backend, the oldest first; an empty name leaves it free."""
    return _rows(
        operator,
        """
        SELECT k.queue, k.type, k.backend, count(DISTINCT k.tenant_id) AS tenants,
               coalesce(sum(k.tickets) FILTER (WHERE k.state IN ('ready', 'waiting', 'parts')), 0)::bigint AS waiting,
               coalesce(sum(k.tickets) FILTER (WHERE k.state = 'scheduled'), 0)::bigint AS scheduled,
               coalesce(sum(k.tickets) FILTER (WHERE k.state = 'running'), 0)::bigint AS running,
               coalesce(sum(k.tickets) FILTER (WHERE k.state = 'review'), 0)::bigint AS review,
               min(k.oldest) FILTER (WHERE k.state = 'ready') AS oldest
        FROM ticket_counts k
        WHERE k.tenant_id IN (SELECT id FROM seen WHERE %(tenant)s = '' OR slug = %(tenant)s)
          AND (%(queue)s = '' OR k.queue = %(queue)s) AND (%(type)s = '' OR k.type = %(type)s)
        GROUP BY k.queue, k.type, k.backend ORDER BY oldest NULLS LAST, k.queue, k.type, k.backend
        """,
        companies,
        queue=queue,
        type=job_type,
        tenant=tenant,
    )


@dataclass(slots=True, kw_only=True)
class QueueCount:
    """The counts of one queue, and the time since when its oldest job waits."""

    queue: str
    types: set[str] = field(default_factory=set)
    waiting: int = 0
    scheduled: int = 0
    running: int = 0
    review: int = 0
    oldest: datetime | None = None


def queues(lanes: Iterable[Row]) -> list[QueueCount]:
    """Return the sums of `lanes` for each queue, in the same order: the oldest first."""
    found: dict[str, QueueCount] = {}
    for lane in lanes:
        queue = found.setdefault(lane["queue"], QueueCount(queue=lane["queue"], oldest=lane["oldest"]))
        queue.types.add(lane["type"])
        for name in ("waiting", "scheduled", "running", "review"):
            setattr(queue, name, getattr(queue, name) + lane[name])
    return list(found.values())


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


def _rows(operator: Operator, statement: LiteralString, companies: Companies, **given: Any) -> list[Row]:
    named = None if companies is None else list(companies)
    with operator.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(_SEEN + statement, {"companies": named} | given).fetchall()
