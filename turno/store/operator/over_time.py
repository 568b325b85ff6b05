"""Read how throughput and waits went over the last hours, as the operator: what charts draw."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, LiteralString

import psycopg

from turno.store.operator.histogram import BOUNDS_MS, quantile
from turno.store.operator.totals import CLAIMS

# What a line of a chart stands for; "" is one line for everything.
By = Literal["", "type", "tenant"]
MINUTE = timedelta(minutes=1)
FIVE_MINUTES = timedelta(minutes=5)
BUCKETS = range(len(BOUNDS_MS) + 1)

SINCE: LiteralString = "date_bin(%(step)s, now() - %(window)s::interval, 'epoch')"
# The same numbers of tenant_loads, where a row has all waits, and of outcome_counts, which has a row for each bucket.
LOADS: LiteralString = (
    f"sum(o.completed), sum(o.failed), sum(o.cancelled), sum(o.retried), sum(o.attempts), sum(o.run_ms),"  # noqa: S608
    f" ARRAY[{', '.join(f'sum(o.waits[{bucket + 1}])' for bucket in BUCKETS)}]"
    f" FROM (SELECT slot AS minute, l.* FROM loads_of(%(tenants)s::integer[], {SINCE}, %(slot)s::interval) AS l) AS o"
)
MINUTES: LiteralString = (
    "sum(o.outcomes) FILTER (WHERE o.outcome = 'completed'), sum(o.outcomes) FILTER (WHERE o.outcome = 'failed'),"  # noqa: S608
    " sum(o.outcomes) FILTER (WHERE o.outcome = 'cancelled'), sum(o.outcomes) FILTER (WHERE o.outcome = 'retried'),"
    " sum(o.attempts), sum(o.run_ms),"
    f" ARRAY[{', '.join(f'sum(o.outcomes) FILTER (WHERE o.wait_bucket = {bucket})' for bucket in BUCKETS)}]"
    f" FROM (SELECT c.* FROM outcome_sums() AS c WHERE c.minute >= {SINCE} AND c.tenant_id = ANY (%(tenants)s)"
    "        AND c.outcome <> ALL (%(claims)s)) AS o"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One line's value for the time from `at` until a step later: ended jobs, and how long attempts waited and ran.

    `line` is a type, a tenant's slug, or empty. Without a wait or an attempt the milliseconds are None.
    """

    at: datetime
    line: str
    completed: int
    failed: int
    cancelled: int
    retried: int
    wait_p50_ms: float | None
    wait_p95_ms: float | None
    run_mean_ms: float | None

    @property
    def ended(self) -> int:
        """Return how many jobs were over."""
        return self.completed + self.failed + self.cancelled


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
    statement = (
        "WITH found (at, line, completed, failed, cancelled, retried, attempts, run_ms, waits) AS ("  # noqa: S608
        " SELECT date_bin(%(step)s, o.minute, 'epoch'),"
        " CASE %(by)s WHEN 'type' THEN o.type WHEN 'tenant' THEN n.slug ELSE '' END, "
        + (MINUTES if slot is None else LOADS)
        + " LEFT JOIN tenants n ON n.id = o.tenant_id WHERE %(type)s::text IS NULL OR o.type = %(type)s GROUP BY 1, 2"
        "), most AS ("
        " SELECT line FROM found GROUP BY line"
        " ORDER BY sum(coalesce(completed, 0) + coalesce(failed, 0) + coalesce(cancelled, 0)) DESC, line"
        " LIMIT %(lines)s)"
        " SELECT at, line, completed::bigint, failed::bigint, cancelled::bigint, retried::bigint, attempts::bigint,"
        " run_ms::bigint, waits::bigint[] FROM found JOIN most USING (line) ORDER BY at, line"
    )
    given = {"step": step, "slot": slot, "window": window, "by": by, "type": job_type, "lines": lines}
    rows = operator.execute(statement, given | {"tenants": numbers, "claims": list(CLAIMS)})
    return [_point(*row) for row in rows]


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


def _point(at: datetime, line: str, *counts: Any) -> Point:
    completed, failed, cancelled, retried, attempts, run_ms, found = counts
    waits = {bucket: many for bucket, many in enumerate(found) if many}
    return Point(
        at=at,
        line=line,
        completed=completed or 0,
        failed=failed or 0,
        cancelled=cancelled or 0,
        retried=retried or 0,
        wait_p50_ms=quantile(waits, 0.5),
        wait_p95_ms=quantile(waits, 0.95),
        run_mean_ms=run_ms / attempts if attempts else None,
    )
