"""Read counts and ages of jobs, queues and tenants with the operator's login; no tenant's data.

Only the tenants of `companies` are counted; None counts the tenants of all companies.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, LiteralString

import psycopg
from psycopg.rows import dict_row

Operator = psycopg.Connection[Any]
Companies = Collection[str] | None
Row = dict[str, Any]
MOST_TENANTS, MOST_GROUPS = 200, 50  # values that a filter suggests


def tenants(
    operator: Operator,
    companies: Companies = None,
    *,
    begins: str = "",
    show: str = "",
    after: str = "",
    limit: int | None = None,
) -> list[Row]:
    """Return active tenants by name, each with its settings, its jobs and its share of the last 15 minutes.

    `begins` is the beginning of the name, and `show` is waiting, running, paused, or empty for all tenants.
    """
    where: LiteralString = """
        AND starts_with(tenant, %(begins)s) AND tenant COLLATE "C" > %(after)s
        AND CASE %(show)s WHEN 'paused' THEN paused_at IS NOT NULL WHEN 'waiting' THEN waiting > 0
                          WHEN 'running' THEN running > 0 ELSE true END
        ORDER BY tenant COLLATE "C" LIMIT %(limit)s
    """
    return _tenants(operator, companies, where, begins=begins, show=show, after=after, limit=limit)


def tenant(operator: Operator, companies: Companies, slug: str) -> Row | None:
    """Return one tenant as `tenants` does, or None."""
    return next(iter(_tenants(operator, companies, " AND tenant = %(slug)s", slug=slug)), None)


def worst_tenants(operator: Operator, companies: Companies = None, limit: int | None = None) -> list[Row]:
    """Return the tenants with work now or in the last 15 minutes as `tenants` does, the longest wait first."""
    where: LiteralString = (
        " AND busy ORDER BY greatest(wait_p95_ms, 1000 * oldest_wait) DESC NULLS LAST, tenant LIMIT %(limit)s"
    )
    return _tenants(operator, companies, where, limit=limit)


def _tenants(operator: Operator, companies: Companies, where: LiteralString, **given: Any) -> list[Row]:
    statement: LiteralString = (
        "SELECT * FROM tenant_shares WHERE (%(companies)s::text[] IS NULL OR company = ANY (%(companies)s))"
    )
    return rows(operator, statement + where, companies, **given)


def lanes(
    operator: Operator, companies: Companies, *, queue: str = "", job_type: str = "", tenant: str = ""
) -> list[Row]:
    """Return the counts of each queue, type and backend, the oldest first; an empty name leaves it free."""
    return rows(
        operator,
        """
        SELECT k.queue, k.type, k.backend, count(DISTINCT k.tenant_id) AS tenants,
               coalesce(sum(k.tickets) FILTER (WHERE k.state IN ('ready', 'waiting', 'parts')), 0)::bigint AS waiting,
               coalesce(sum(k.tickets) FILTER (WHERE k.state = 'scheduled'), 0)::bigint AS scheduled,
               coalesce(sum(k.tickets) FILTER (WHERE k.state = 'running'), 0)::bigint AS running,
               coalesce(sum(k.tickets) FILTER (WHERE k.state = 'review'), 0)::bigint AS review,
               min(k.oldest) FILTER (WHERE k.state = 'ready') AS oldest
        FROM ticket_counts k JOIN tenants n ON n.id = k.tenant_id AND n.state = 'active'
        JOIN companies c ON c.id = n.company_id
        WHERE (%(companies)s::text[] IS NULL OR c.slug = ANY (%(companies)s))
          AND (%(tenant)s = '' OR n.slug = %(tenant)s)
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
    counted: dict[str, QueueCount] = {}
    for lane in lanes:
        queue = counted.setdefault(lane["queue"], QueueCount(queue=lane["queue"], oldest=lane["oldest"]))
        queue.types.add(lane["type"])
        for name in ("waiting", "scheduled", "running", "review"):
            setattr(queue, name, getattr(queue, name) + lane[name])
    return list(counted.values())


def scopes(operator: Operator, companies: Companies) -> list[int]:
    """Return the scopes of the statistics of these companies, or of the installation."""
    if companies is None:
        return [0]
    cursor = operator.execute("SELECT -id FROM companies WHERE slug = ANY (%s)", (list(companies),))
    return [number for (number,) in cursor]


def ended_lately(operator: Operator, companies: Companies) -> Counter[str]:
    """Return the number of outcomes of the last hour, by outcome."""
    cursor = operator.execute(
        """
        SELECT outcome, sum(outcomes)::bigint FROM statistics
        WHERE scope = ANY (%s) AND minute >= date_trunc('minute', now() - interval '1 hour') GROUP BY outcome
        """,
        (scopes(operator, companies),),
    )
    return Counter(dict(cursor.fetchall()))


def counted_until(operator: Operator) -> datetime | None:
    """Return the time of the last reading of outcomes into the statistics; None: there was none."""
    row = operator.execute("SELECT read_at FROM outcome_readers WHERE reader = 'statistics'").fetchone()
    return row[0] if row else None


def filter_values(operator: Operator, companies: Companies, types: Iterable[str] = ()) -> dict[str, list[str]]:
    """Return tenants of these companies, the `types`, and types and errors of the largest groups of failures."""
    values: dict[str, list[str]] = {"tenant": [], "type": sorted(types), "error": []}
    statement: LiteralString = """
        WITH groups AS MATERIALIZED (
            SELECT type, error, sum(open) AS open FROM failed_job_counts
            WHERE day >= current_date - 7 AND (%(companies)s::text[] IS NULL OR company = ANY (%(companies)s))
            GROUP BY type, error HAVING sum(open) > 0 ORDER BY open DESC LIMIT %(groups)s
        )
        (SELECT 'tenant' AS field, n.slug AS value FROM tenants n JOIN companies c ON c.id = n.company_id
         WHERE n.state = 'active' AND (%(companies)s::text[] IS NULL OR c.slug = ANY (%(companies)s))
         ORDER BY n.slug LIMIT %(tenants)s)
        UNION ALL (SELECT 'type', type FROM groups GROUP BY type ORDER BY type)
        UNION ALL (SELECT 'error', error FROM groups GROUP BY error ORDER BY sum(open) DESC, error)
    """
    for row in rows(operator, statement, companies, tenants=MOST_TENANTS, groups=MOST_GROUPS):
        if row["value"] not in values[row["field"]]:
            values[row["field"]].append(row["value"])
    return values


def rows(operator: Operator, statement: LiteralString, companies: Companies = None, **given: Any) -> list[Row]:
    """Return the rows of a statement, which has the companies as the array `companies`, or NULL."""
    with operator.cursor(row_factory=dict_row) as cursor:
        named = None if companies is None else list(companies)
        return cursor.execute(statement, {"companies": named} | given).fetchall()
