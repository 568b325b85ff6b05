"""Read how throughput and waits went over the last hours, as the operator: what charts draw."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

import psycopg

from turno.store.operator.histogram import quantile
from turno.store.operator.totals import CLAIMS, ENDS

# What a line of a chart stands for; "" is one line for everything.
By = Literal["", "type", "tenant"]
MINUTE = timedelta(minutes=1)


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
    theirs, and of many lines only the `lines` with most ended jobs are returned.
    """
    numbers = counted_under(operator, tenant=tenant, companies=companies, apart=by == "tenant")
    if by == "tenant" and job_type is None:
        numbers = _most(operator, numbers, window, step, lines)
    rows = operator.execute(
        """
        WITH counted AS (
            SELECT date_bin(%(step)s, o.minute, 'epoch') AS at,
                   CASE %(by)s WHEN 'type' THEN o.type WHEN 'tenant' THEN n.slug ELSE '' END AS line,
                   o.outcome, o.wait_bucket, o.outcomes, o.attempts, o.run_ms
            FROM outcome_sums() o LEFT JOIN tenants n ON n.id = o.tenant_id
            WHERE o.minute >= date_bin(%(step)s, now() - %(window)s::interval, 'epoch')
              AND o.tenant_id = ANY (%(tenants)s) AND o.outcome <> ALL (%(claims)s)
              AND (%(type)s::text IS NULL OR o.type = %(type)s)
        ), most AS (
            SELECT line FROM counted GROUP BY line
            ORDER BY sum(outcomes) FILTER (WHERE outcome = ANY (%(ends)s)) DESC NULLS LAST, line LIMIT %(lines)s
        )
        SELECT at, line, outcome, wait_bucket, sum(outcomes)::bigint, sum(attempts)::bigint, sum(run_ms)::bigint
        FROM counted JOIN most USING (line) GROUP BY at, line, outcome, wait_bucket ORDER BY at, line
        """,
        {
            "step": step,
            "window": window,
            "by": by,
            "type": job_type,
            "lines": lines,
            "ends": list(ENDS),
            "claims": list(CLAIMS),
            "tenants": numbers,
        },
    )
    return list(_points(rows))


def counted_under(
    operator: psycopg.Connection[Any],
    *,
    tenant: str | None = None,
    companies: Sequence[str] | None = None,
    apart: bool = False,
) -> list[int]:
    """Return the numbers under which the counts stand: 0 is all tenants together, unless each is told `apart`."""
    if not apart and tenant is None and companies is None:
        return [0]
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
            GROUP BY tenant_id) AS l
        JOIN tenants n ON n.id = l.tenant_id
        WHERE l.tenant_id = ANY (%(numbers)s) ORDER BY l.ended DESC, n.slug LIMIT %(lines)s
        """,
        {"numbers": list(numbers), "step": step, "window": window, "lines": lines},
    )
    return [number for (number,) in rows]


def _points(rows: Iterable[tuple[Any, ...]]) -> Iterable[Point]:
    found: dict[tuple[datetime, str], list[tuple[Any, ...]]] = defaultdict(list)
    for at, line, *counts in rows:
        found[at, line].append(tuple(counts))
    for (at, line), counts in found.items():
        outcomes, waits = Counter[str](), Counter[int]()
        for outcome, bucket, many, _, _ in counts:
            outcomes[outcome] += many
            waits[bucket] += many
        attempts, run_ms = sum(one[3] for one in counts), sum(one[4] for one in counts)
        yield Point(
            at=at,
            line=line,
            completed=outcomes["completed"],
            failed=outcomes["failed"],
            cancelled=outcomes["cancelled"],
            retried=outcomes["retried"],
            wait_p50_ms=quantile(waits, 0.5),
            wait_p95_ms=quantile(waits, 0.95),
            run_mean_ms=run_ms / attempts if attempts else None,
        )
