"""Read the sums of all outcomes since the installation, as the operator: the counters of a monitoring system."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import psycopg
from psycopg.rows import class_row, dict_row

from turno.jobs.label import Outcome

ENDS: tuple[Outcome, ...] = get_args(Outcome)  # outcomes after which a job is over
CLAIMS = ("rescued", "claim_lost")  # of a claim, besides the outcome of its attempt


@dataclass(slots=True)
class TypeTotals:
    """Totals of one job type; `waits` and the `runs` of each outcome are by bucket, see histogram.py.

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
    """Return the totals of each job type over all tenants. Types without a handler have the name '(other)'."""
    totals: dict[str, TypeTotals] = defaultdict(TypeTotals)
    with operator.cursor(row_factory=dict_row) as cursor:
        for row in cursor.execute("SELECT * FROM statistics WHERE scope = 0 AND minute = '-infinity'"):
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
        for row in cursor.execute("SELECT type, jobs FROM submitted_jobs"):
            totals[row["type"]].submitted = row["jobs"]
    return dict(sorted(totals.items()))


def by_tenant(
    operator: psycopg.Connection[Any], *, tenant: str | None = None, companies: Sequence[str] | None = None
) -> list[TenantTotal]:
    """Return the totals of each active tenant, type and outcome, or of one tenant, or of some companies' tenants."""
    with operator.cursor(row_factory=class_row(TenantTotal)) as cursor:
        return cursor.execute(
            """
            SELECT n.slug AS tenant, s.type, s.outcome, s.outcomes, s.attempts, s.wait_ms[1] AS wait_ms, s.run_ms,
                   s.items_done, s.items_failed
            FROM statistics s JOIN tenants n ON n.id = s.scope JOIN companies c ON c.id = n.company_id
            WHERE s.minute = '-infinity' AND n.state = 'active' AND (%(tenant)s::text IS NULL OR n.slug = %(tenant)s)
              AND (%(companies)s::text[] IS NULL OR c.slug = ANY (%(companies)s))
            ORDER BY n.slug, s.type, s.outcome
            """,
            {"tenant": tenant, "companies": None if companies is None else list(companies)},
        ).fetchall()
