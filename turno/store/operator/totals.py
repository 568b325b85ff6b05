"""Read how much was done since the installation began, as the operator: what counters of a monitoring system show."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import psycopg

from turno.jobs.label import Outcome

ENDS: tuple[Outcome, ...] = get_args(Outcome)  # outcomes after which a job is over
CLAIMS = ("rescued", "claim_lost")  # of a claim, besides the outcome of its attempt


@dataclass(slots=True)
class TypeTotals:
    """Totals of one job type; `waits` and the `runs` of each outcome are by bucket, see histogram.py.

    `outcomes` counts attempts, jobs that ended without an attempt, and claims 'rescued' or 'claim_lost'. A wait is from
    the moment a job could run to the start of an attempt, or to an end without one. `submitted` counts ended and open
    jobs.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantTotal:
    """The totals of one outcome of a tenant's jobs of one type."""

    tenant: str
    type: str
    outcome: str
    outcomes: int
    attempts: int
    wait_ms: int
    run_ms: int
    items_done: int
    items_failed: int


def by_type(operator: psycopg.Connection[Any]) -> dict[str, TypeTotals]:
    """Return the totals of each job type, over all tenants. Types without a handler are one: '(other)'."""
    # Ended and open jobs in one statement: a job that ends between two would be counted twice, or not at all.
    totals: dict[str, TypeTotals] = defaultdict(TypeTotals)
    rows = operator.execute(
        """
        SELECT type, outcome, wait_bucket, run_bucket, sum(outcomes)::bigint, sum(attempts)::bigint,
               sum(wait_ms)::bigint, sum(run_ms)::bigint, sum(items_done)::bigint, sum(items_failed)::bigint
        FROM outcome_sums() WHERE tenant_id = 0 AND minute = '-infinity'
        GROUP BY type, outcome, wait_bucket, run_bucket
        UNION ALL
        SELECT h.type, 'open', -1, -1, sum(k.tickets)::bigint, 0, 0, 0, 0, 0
        FROM ticket_counts k JOIN handlers h ON h.type = k.type GROUP BY h.type
        ORDER BY type, outcome
        """
    )
    for job_type, outcome, wait, run, outcomes, attempts, wait_ms, run_ms, items_done, items_failed in rows:
        one = totals[job_type]
        if outcome == "open" or outcome in ENDS:
            one.submitted += outcomes
        if outcome == "open":
            continue
        one.items_done += items_done
        one.items_failed += items_failed
        one.outcomes[outcome] += outcomes
        if outcome in CLAIMS:
            continue
        one.attempts += attempts
        one.waits[wait] += outcomes
        one.wait_ms += wait_ms
        if attempts:
            one.runs[outcome][run] += attempts
            one.run_ms[outcome] += run_ms
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
                   sum(o.run_ms)::bigint AS run_ms, sum(o.items_done)::bigint AS items_done,
                   sum(o.items_failed)::bigint AS items_failed
            FROM outcome_sums() o JOIN tenants n ON n.id = o.tenant_id
            JOIN companies c ON c.id = n.company_id
            WHERE o.minute = '-infinity' AND n.state = 'active' AND (%(tenant)s::text IS NULL OR n.slug = %(tenant)s)
              AND (%(companies)s::text[] IS NULL OR c.slug = ANY (%(companies)s))
            GROUP BY n.slug, o.type, o.outcome ORDER BY n.slug, o.type, o.outcome
            """,
            {"tenant": tenant, "companies": None if companies is None else list(companies)},
        ).fetchall()
