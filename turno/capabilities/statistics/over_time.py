"""Read throughput, failures and waits of the last hours, as the operator: the points of charts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, LiteralString

import psycopg
from psycopg.rows import class_row

from turno.capabilities.statistics.counts import CLAIMS
from turno.store.operator.counts import scopes

By = Literal["", "type", "tenant"]  # the meaning of a line of a chart; "" is one line for all jobs
MINUTE = timedelta(minutes=1)

# The tenants with most ended jobs, among the selected.
TENANTS: LiteralString = """
SELECT s.scope FROM statistics s JOIN tenants n ON n.id = s.scope JOIN companies c ON c.id = n.company_id
WHERE n.state = 'active' AND (%(tenant)s::text IS NULL OR n.slug = %(tenant)s)
  AND (%(companies)s::text[] IS NULL OR c.slug = ANY (%(companies)s))
  AND s.minute >= date_bin(%(step)s, now() - %(window)s::interval, 'epoch')
  AND (%(type)s::text IS NULL OR s.type = %(type)s)
GROUP BY s.scope, n.slug
ORDER BY coalesce(sum(s.outcomes) FILTER (WHERE is_end(s.outcome)), 0) DESC, n.slug LIMIT %(lines)s
"""
POINTS: LiteralString = """
WITH source AS MATERIALIZED (
    SELECT s.*, date_bin(%(step)s, s.minute, 'epoch') AS at,
           CASE %(by)s WHEN 'type' THEN s.type WHEN 'tenant' THEN n.slug ELSE '' END AS line
    FROM statistics s LEFT JOIN tenants n ON n.id = s.scope
    WHERE s.scope = ANY (%(scopes)s) AND s.minute >= date_bin(%(step)s, now() - %(window)s::interval, 'epoch')
      AND s.outcome <> ALL (%(claims)s) AND (%(type)s::text IS NULL OR s.type = %(type)s)
), points AS (
    SELECT at, line, coalesce(sum(outcomes) FILTER (WHERE outcome = 'completed'), 0)::bigint AS completed,
           coalesce(sum(outcomes) FILTER (WHERE outcome = 'completed_with_failures'), 0)::bigint
               AS completed_with_failures,
           coalesce(sum(outcomes) FILTER (WHERE outcome = 'nothing_done'), 0)::bigint AS nothing_done,
           coalesce(sum(outcomes) FILTER (WHERE outcome = 'failed'), 0)::bigint AS failed,
           coalesce(sum(outcomes) FILTER (WHERE outcome = 'cancelled'), 0)::bigint AS cancelled,
           coalesce(sum(outcomes) FILTER (WHERE outcome = 'retried'), 0)::bigint AS retried,
           sum(run_ms)::float8 / nullif(sum(attempts), 0)::float8 AS run_mean_ms
    FROM source GROUP BY at, line
), most AS (
    SELECT line FROM source GROUP BY line
    ORDER BY coalesce(sum(outcomes) FILTER (WHERE is_end(outcome)), 0) DESC, line LIMIT %(lines)s
), ranked AS (
    SELECT at, line, w.bucket, sum(w.n) AS n, sum(w.ms) AS ms,
           sum(sum(w.n)) OVER (PARTITION BY at, line ORDER BY w.bucket) - sum(w.n) AS before,
           sum(sum(w.n)) OVER (PARTITION BY at, line) AS waits
    FROM source JOIN most USING (line)
    CROSS JOIN LATERAL unnest(wait_buckets, counts, wait_ms) AS w (bucket, n, ms)
    GROUP BY at, line, w.bucket
), percentiles AS (
    SELECT at, line, max(wait_at(bucket, n, ms, ceil(0.5 * waits) - before)) AS wait_p50_ms,
           max(wait_at(bucket, n, ms, ceil(0.95 * waits) - before)) AS wait_p95_ms
    FROM ranked GROUP BY at, line
)
SELECT p.*, w.wait_p50_ms, w.wait_p95_ms FROM points p JOIN percentiles w USING (at, line) ORDER BY at, line
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Values of one line from `at` until a step later: ended jobs by outcome, wait and run times of attempts.

    `line` is a type, a tenant's slug, or empty. The milliseconds are None without a wait or an attempt.
    """

    at: datetime
    line: str
    completed: int
    completed_with_failures: int
    nothing_done: int
    failed: int
    cancelled: int
    retried: int
    wait_p50_ms: float | None
    wait_p95_ms: float | None
    run_mean_ms: float | None

    @property
    def ended(self) -> int:
        """Return the number of jobs that ended."""
        return self.completed + self.failures + self.cancelled

    @property
    def failures(self) -> int:
        """Return the number of jobs that failed or have failed items."""
        return self.completed_with_failures + self.nothing_done + self.failed


def over_time(
    operator: psycopg.Connection[Any],
    *,
    window: timedelta,
    step: timedelta = MINUTE,
    by: By = "",
    tenant: str | None = None,
    job_type: str | None = None,
    companies: Sequence[str] | None = None,
    lines: int = 10,
) -> list[Point]:
    """Return the points of a window that ends now, by time and line; a step without outcomes has no point.

    `step` is whole minutes; minutes are kept for two days. `tenant` (a slug), `job_type` and `companies` select jobs,
    and only the `lines` with most ended jobs are returned. Types without a handler have the name '(other)', except in
    the points of tenants.
    """
    given = {
        "step": step,
        "window": window,
        "by": by,
        "tenant": tenant,
        "companies": None if companies is None else list(companies),
        "type": job_type,
        "lines": lines,
        "claims": list(CLAIMS),
    }
    if by == "tenant" or tenant is not None:
        found = [number for (number,) in operator.execute(TENANTS, given)]
    else:
        found = scopes(operator, companies)
    with operator.cursor(row_factory=class_row(Point)) as cursor:
        return cursor.execute(POINTS, given | {"scopes": found}).fetchall()
