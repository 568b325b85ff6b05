"""Read totals since the installation, open jobs and living workers, as the operator."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import timedelta
from typing import get_args

from turno.jobs.label import Outcome
from turno.store.operator.counts import Companies, Operator, Row, rows

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

    `tenant` and `companies` select jobs. `waiting` jobs have other jobs of their concurrency keys before them;
    `oldest_wait` is in seconds, 0 without a ready job. Types without a handler are the type '(other)' in a queue of
    that name.
    """
    return rows(
        operator,
        """
        SELECT CASE WHEN %(tenants)s THEN n.slug ELSE '' END AS tenant, t.backend,
               CASE WHEN h.type IS NULL THEN '(other)' ELSE t.queue END AS queue, coalesce(h.type, '(other)') AS type,
               coalesce(sum(t.tickets) FILTER (WHERE t.state IN ('scheduled', 'review')), 0)::bigint AS scheduled,
               coalesce(sum(t.tickets) FILTER (WHERE t.state IN ('waiting', 'parts')), 0)::bigint AS waiting,
               coalesce(sum(t.tickets) FILTER (WHERE t.state = 'ready'), 0)::bigint AS ready,
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
