"""Read how much was done since the installation began, as the operator: what counters of a monitoring system show."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

ENDS = ("completed", "failed", "cancelled")  # outcomes with which a job is over
CLAIMS = ("rescued", "claim_lost")  # what is told of a claim, beside the attempt's own outcome


@dataclass(slots=True)
class TypeTotals:
    """What became of the jobs of one type; `waits` and `runs` are by bucket, see histogram.py.

    `outcomes` counts attempts by how they ended, jobs that ended without one, and claims 'rescued' or 'claim_lost'. A
    wait is from the moment a job could run to the start of an attempt, or to an end without one.
    """

    attempts: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    waits: Counter[int] = field(default_factory=Counter)
    runs: Counter[int] = field(default_factory=Counter)
    wait_ms: int = 0
    run_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantTotal:
    """How often something became of a tenant's jobs of one type."""

    tenant: str
    type: str
    outcome: str
    outcomes: int
    attempts: int
    wait_ms: int
    run_ms: int


def by_type(operator: psycopg.Connection[Any]) -> dict[str, TypeTotals]:
    """Return the totals of each job type, over all tenants. Types that nobody announced are one: '(other)'."""
    totals: dict[str, TypeTotals] = defaultdict(TypeTotals)
    rows = operator.execute(
        """
        SELECT type, outcome, wait_bucket, run_bucket, sum(outcomes)::bigint, sum(attempts)::bigint,
               sum(wait_ms)::bigint, sum(run_ms)::bigint
        FROM outcome_sums() WHERE tenant_id = 0 AND minute = '-infinity'
        GROUP BY type, outcome, wait_bucket, run_bucket ORDER BY type, outcome
        """
    )
    for job_type, outcome, wait, run, outcomes, attempts, wait_ms, run_ms in rows:
        one = totals[job_type]
        one.outcomes[outcome] += outcomes
        if outcome in CLAIMS:
            continue
        one.attempts += attempts
        one.waits[wait] += outcomes
        one.wait_ms += wait_ms
        one.run_ms += run_ms
        if attempts:
            one.runs[run] += attempts
    return dict(totals)


def by_tenant(
    operator: psycopg.Connection[Any], *, tenant: str | None = None, companies: Sequence[str] | None = None
) -> list[TenantTotal]:
    """Return the totals of each active tenant, type and outcome, or of one tenant, or of some companies' tenants."""
    with operator.cursor(row_factory=psycopg.rows.class_row(TenantTotal)) as cursor:
        return cursor.execute(
            """
            SELECT n.slug AS tenant, o.type, o.outcome, sum(o.outcomes)::bigint AS outcomes,
                   sum(o.attempts)::bigint AS attempts, sum(o.wait_ms)::bigint AS wait_ms,
                   sum(o.run_ms)::bigint AS run_ms
            FROM outcome_sums() o JOIN tenants n ON n.id = o.tenant_id
            JOIN companies c ON c.id = n.company_id
            WHERE o.minute = '-infinity' AND n.state = 'active' AND (%(tenant)s::text IS NULL OR n.slug = %(tenant)s)
              AND (%(companies)s::text[] IS NULL OR c.slug = ANY (%(companies)s))
            GROUP BY n.slug, o.type, o.outcome ORDER BY n.slug, o.type, o.outcome
            """,
            {"tenant": tenant, "companies": None if companies is None else list(companies)},
        ).fetchall()
