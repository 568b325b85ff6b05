"""Read totals since the installation, the last hours, open jobs and living workers, as the operator."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, LiteralString, get_args

import psycopg
from psycopg.rows import class_row

from turno.jobs.label import Outcome
from turno.store.operator.counts import Companies, Operator, Row, rows, scopes

ENDS: tuple[Outcome, ...] = get_args(Outcome)  # outcomes after which a job is over
CLAIMS = ("rescued", "claim_lost")  # of a claim, besides the outcome of its attempt


@dataclass(slots=True)
class TypeTotals:
    """Totals of one job type; `waits` and the `runs` of each outcome are by bucket, see metrics.py.

    `outcomes` counts attempts, jobs that ended without an attempt, and claims 'rescued' or 'claim_lost'. A wait is from
    the moment a job could run to the start of an attempt, or to an end without one. `submitted` counts ended and open
    jobs at this moment; all further totals are as old as the statistics.
    """

    submitted: int = 0
    items_done: int = 0
    items_failed: int = 0
    attempts: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    waits: Counter[int] = field(default_factory=Counter)
    runs: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    wait_ms: int = 0
    run_ms: Counter[str] = field(default_factory=Counter)  # of the attempts with each outcome


def by_type(operator: Operator) -> dict[str, TypeTotals]:
    """Return the totals of each job type over all tenants. Types without a handler have the name '(other)'."""
    totals: dict[str, TypeTotals] = defaultdict(TypeTotals)
    for row in rows(operator, "SELECT * FROM statistics WHERE scope = 0 AND minute = '-infinity'"):
        total, outcome = totals[row["type"]], row["outcome"]
        total.items_done += row["items_done"]
        total.items_failed += row["items_failed"]
        total.outcomes[outcome] = row["outcomes"]
        if outcome in CLAIMS:
            continue
        total.attempts += row["attempts"]
        total.wait_ms += sum(row["wait_ms"])
        for wait, run, number in zip(row["wait_buckets"], row["run_buckets"], row["counts"], strict=True):
            total.waits[wait] += number
            if run >= 0:
                total.runs[outcome][run] += number
        if row["attempts"]:
            total.run_ms[outcome] = row["run_ms"]
    for row in rows(operator, "SELECT type, jobs FROM submitted_jobs"):
        totals[row["type"]].submitted = row["jobs"]
    return dict(sorted(totals.items()))


def by_tenant(operator: Operator, *, tenant: str | None = None, companies: Companies = None) -> list[Row]:
    """Return the totals of each active tenant, type and outcome, or of one tenant, or of some companies' tenants."""
    return rows(
        operator,
        """
        SELECT n.slug AS tenant, s.type, s.outcome, s.outcomes, s.attempts, s.wait_ms[1] AS wait_ms, s.run_ms,
               s.items_done, s.items_failed
        FROM statistics s JOIN tenants n ON n.id = s.scope JOIN companies c ON c.id = n.company_id
        WHERE s.minute = '-infinity' AND n.state = 'active' AND (%(tenant)s::text IS NULL OR n.slug = %(tenant)s)
          AND (%(companies)s::text[] IS NULL OR c.slug = ANY (%(companies)s))
        ORDER BY n.slug, s.type, s.outcome
        """,
        companies,
        tenant=tenant,
    )


def queued(
    operator: Operator, *, tenants: bool = False, tenant: str | None = None, companies: Companies = None
) -> list[Row]:
    """Return the open jobs of each backend, queue and type, for each tenant or their sum (an empty `tenant`).

    `tenant` and `companies` select jobs. `blocked` jobs wait for other jobs: of their concurrency keys, or their
    parts. `oldest_wait` is in seconds, 0 without a `waiting` job. Types without a handler are the type '(other)' in a
    queue of that name.
    """
    return rows(
        operator,
        """
        SELECT CASE WHEN %(tenants)s THEN n.slug ELSE '' END AS tenant, t.backend,
               CASE WHEN h.type IS NULL THEN '(other)' ELSE t.queue END AS queue, coalesce(h.type, '(other)') AS type,
               coalesce(sum(t.tickets) FILTER (WHERE t.state = 'scheduled'), 0)::bigint AS scheduled,
               coalesce(sum(t.tickets) FILTER (WHERE t.state = 'review'), 0)::bigint AS needs_review,
               coalesce(sum(t.tickets) FILTER (WHERE t.state = 'ready'), 0)::bigint AS waiting,
               coalesce(sum(t.tickets) FILTER (WHERE t.state IN ('waiting', 'parts')), 0)::bigint AS blocked,
               coalesce(sum(t.tickets) FILTER (WHERE t.state = 'running'), 0)::bigint AS running,
               greatest(0, coalesce(extract(epoch FROM clock_timestamp()
                   - min(t.oldest) FILTER (WHERE t.state = 'ready')), 0))::float AS oldest_wait
        FROM ticket_counts t LEFT JOIN handlers h ON h.type = t.type LEFT JOIN tenants n ON n.id = t.tenant_id
        LEFT JOIN companies c ON c.id = n.company_id
        WHERE (%(tenant)s::text IS NULL OR n.slug = %(tenant)s)
          AND (%(companies)s::text[] IS NULL OR c.slug = ANY (%(companies)s))
        GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
        """,
        companies,
        tenants=tenants,
        tenant=tenant,
    )


def served(operator: Operator, dead_after: timedelta) -> list[Row]:
    """Return the workers of each backend: `alive`, and `silent` with an old heartbeat."""
    return rows(
        operator,
        """
        SELECT b.name AS backend,
               count(w.id) FILTER (WHERE w.alive_at >= clock_timestamp() - %(dead_after)s) AS alive,
               count(w.id) FILTER (WHERE w.alive_at < clock_timestamp() - %(dead_after)s) AS silent
        FROM backends b LEFT JOIN workers w ON w.backend = b.name
        GROUP BY b.name ORDER BY b.name
        """,
        dead_after=dead_after,
    )


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
           coalesce(sum(outcomes) FILTER (WHERE outcome = 'expired'), 0)::bigint AS expired,
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
    expired: int
    retried: int
    wait_p50_ms: float | None
    wait_p95_ms: float | None
    run_mean_ms: float | None

    @property
    def ended(self) -> int:
        """Return the number of jobs that ended."""
        return self.completed + self.failures + self.cancelled + self.expired

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
        ids = [number for (number,) in operator.execute(TENANTS, given)]
    else:
        ids = scopes(operator, companies)
    with operator.cursor(row_factory=class_row(Point)) as cursor:
        return cursor.execute(POINTS, given | {"scopes": ids}).fetchall()
