"""Read how throughput and waits went over the last hours, as the operator: what charts draw."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, LiteralString

import psycopg
from psycopg.rows import class_row

from turno.store.operator.totals import CLAIMS

# What a line of a chart stands for; "" is one line for everything.
By = Literal["", "type", "tenant"]
MINUTE = timedelta(minutes=1)
FIVE_MINUTES = timedelta(minutes=5)

SINCE: LiteralString = "date_bin(%(step)s, now() - %(window)s::interval, 'epoch')"
# The same columns of tenant_loads, where a row has all waits, and of outcome_counts, which has a row for each bucket.
LOADS: LiteralString = (
    f"SELECT l.slot AS minute, l.* FROM loads_of(%(tenants)s::integer[], {SINCE}, %(slot)s::interval) AS l"  # noqa: S608
)
MINUTES: LiteralString = (
    "SELECT c.*, c.outcomes * (c.outcome = 'completed')::integer AS completed,"  # noqa: S608
    " c.outcomes * (c.outcome = 'completed_with_failures')::integer AS completed_with_failures,"
    " c.outcomes * (c.outcome = 'nothing_done')::integer AS nothing_done,"
    " c.outcomes * (c.outcome = 'failed')::integer AS failed,"
    " c.outcomes * (c.outcome = 'cancelled')::integer AS cancelled,"
    " c.outcomes * (c.outcome = 'retried')::integer AS retried,"
    " ARRAY[c.wait_bucket] AS wait_buckets, ARRAY[c.outcomes] AS waits, ARRAY[c.wait_ms] AS wait_sums"
    f" FROM outcome_sums() AS c WHERE c.minute >= {SINCE} AND c.tenant_id = ANY (%(tenants)s)"
    " AND c.outcome <> ALL (%(claims)s)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Values of one line from `at` until a step later: ended jobs by outcome, waiting and running times of attempts.

    `line` is a type, a tenant's slug, or empty. Without a wait or an attempt the milliseconds are None.
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
    """Return the points of a window that ends now, by time and line; where nothing happened there is none.

    `step` is whole minutes; two days are known. `tenant` (a slug), `job_type` and `companies` leave out what is not
    theirs, and of many lines only the `lines` with most ended jobs are returned. Types that nobody announced are one,
    '(other)', unless it is about tenants.
    """
    by_five = not step % FIVE_MINUTES
    slot: timedelta | None
    if by != "tenant" and tenant is None and (companies is None or by_five):
        numbers, slot = counted_together(operator, companies)
    else:
        numbers = _tenants(operator, tenant, companies)
        slot = FIVE_MINUTES if by_five and by != "type" and job_type is None else None
    if by == "tenant" and job_type is None:
        numbers = _most(operator, numbers, window, step, lines)
    source, sums = (MINUTES, "wait_sums") if slot is None else (LOADS, "wait_ms")
    statement: LiteralString = (
        "WITH source AS MATERIALIZED ("  # noqa: S608
        " SELECT o.*, date_bin(%(step)s, o.minute, 'epoch') AS at,"
        " CASE %(by)s WHEN 'type' THEN o.type WHEN 'tenant' THEN n.slug ELSE '' END AS line"
        " FROM (" + source + ") AS o LEFT JOIN tenants n ON n.id = o.tenant_id"
        " WHERE %(type)s::text IS NULL OR o.type = %(type)s"
        "), points AS ("
        " SELECT at, line, sum(completed)::bigint AS completed,"
        " sum(completed_with_failures)::bigint AS completed_with_failures, sum(nothing_done)::bigint AS nothing_done,"
        " sum(failed)::bigint AS failed, sum(cancelled)::bigint AS cancelled, sum(retried)::bigint AS retried,"
        " sum(run_ms)::float8 / nullif(sum(attempts), 0)::float8 AS run_mean_ms FROM source GROUP BY at, line"
        "), most AS ("
        " SELECT line FROM points GROUP BY line"
        " ORDER BY sum(completed + completed_with_failures + nothing_done + failed + cancelled) DESC, line"
        " LIMIT %(lines)s"
        "), ranked AS ("
        " SELECT at, line, w.bucket, sum(w.n) AS n, sum(w.ms) AS ms,"
        " sum(sum(w.n)) OVER (PARTITION BY at, line ORDER BY w.bucket) - sum(w.n) AS before,"
        " sum(sum(w.n)) OVER (PARTITION BY at, line) AS waits"
        " FROM source CROSS JOIN LATERAL unnest(wait_buckets, source.waits, " + sums + ") AS w (bucket, n, ms)"
        " GROUP BY at, line, w.bucket"
        "), percentiles AS ("
        " SELECT at, line, max(wait_at(bucket, n, ms, ceil(0.5 * waits) - before)) AS wait_p50_ms,"
        " max(wait_at(bucket, n, ms, ceil(0.95 * waits) - before)) AS wait_p95_ms FROM ranked GROUP BY at, line)"
        " SELECT p.*, w.wait_p50_ms, w.wait_p95_ms FROM points p JOIN most USING (line)"
        " LEFT JOIN percentiles w USING (at, line) ORDER BY at, line"
    )
    given = {"step": step, "slot": slot, "window": window, "by": by, "type": job_type, "lines": lines}
    with operator.cursor(row_factory=class_row(Point)) as cursor:
        return cursor.execute(statement, given | {"tenants": numbers, "claims": list(CLAIMS)}).fetchall()


def counted_together(operator: psycopg.Connection[Any], companies: Sequence[str] | None) -> tuple[list[int], timedelta]:
    """Return the numbers under which `loads_of` has all tenants together, or those of companies, and by which slots."""
    if companies is None:
        return [0], MINUTE
    rows = operator.execute("SELECT -id FROM companies WHERE slug = ANY (%s)", (list(companies),))
    return [number for (number,) in rows], FIVE_MINUTES


def _tenants(operator: psycopg.Connection[Any], tenant: str | None, companies: Sequence[str] | None) -> list[int]:
    rows = operator.execute(
        """
        SELECT n.id FROM tenants n JOIN companies c ON c.id = n.company_id
        WHERE n.state = 'active' AND (%(slug)s::text IS NULL OR n.slug = %(slug)s)
          AND (%(companies)s::text[] IS NULL OR c.slug = ANY (%(companies)s))
        """,
        {"slug": tenant, "companies": None if companies is None else list(companies)},
    )
    return [number for (number,) in rows]


def _most(
    operator: psycopg.Connection[Any], numbers: Sequence[int], window: timedelta, step: timedelta, lines: int
) -> list[int]:
    """Return the tenants with most ended jobs; the window is known to five minutes here."""
    rows = operator.execute(
        """
        SELECT l.tenant_id FROM (
            SELECT tenant_id, sum(ended) AS ended FROM tenant_load_sums()
            WHERE slot >= date_bin('5 minutes', date_bin(%(step)s, now() - %(window)s::interval, 'epoch'), 'epoch')
              AND tenant_id > 0
            GROUP BY tenant_id) AS l
        JOIN tenants n ON n.id = l.tenant_id
        WHERE l.tenant_id = ANY (%(numbers)s) ORDER BY l.ended DESC, n.slug LIMIT %(lines)s
        """,
        {"numbers": list(numbers), "step": step, "window": window, "lines": lines},
    )
    return [number for (number,) in rows]
