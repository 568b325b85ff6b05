"""GET /api/admin/jobs/stats: totals, open jobs, and the outcomes of the last hours."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Annotated, Literal

from turno.capabilities.statistics import counts
from turno.capabilities.statistics.counts import Point, over_time
from turno.store.operator.counts import Row, counted_until
from turno.web.requests import NOT_GIVEN, Text, described
from turno.web.responses import from_row
from turno.web.routes import OperatorCall, Routes
from turno.web.services import as_operator, services

stats = Routes("stats", __name__, tag="administration")

SUMS = ("attempts", "wait_ms", "run_ms", "items_done", "items_failed")
LONGEST_WINDOW = 2 * 24 * 60  # minutes: as long as counts by minute are kept


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeStats:
    """Totals of a job type; the milliseconds are means over its attempts, null without an attempt."""

    type: str
    attempts: int
    items_done: int
    items_failed: int
    outcomes: dict[str, int]
    wait_mean_ms: float | None
    run_mean_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """Open jobs of one backend, queue and type; `blocked` ones wait for other jobs; `oldest_wait` is in seconds."""

    backend: str
    queue: str
    type: str
    scheduled: int
    needs_review: int
    waiting: int
    blocked: int
    running: int
    oldest_wait: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Workers of one backend; `silent` ones have an old heartbeat."""

    backend: str
    alive: int
    silent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStats:
    """Totals since the installation, present jobs and workers, and the points of a chart.

    Totals and points count the outcomes up to `counted_at`, which maintenance renews every ten seconds.
    """

    counted_at: datetime | None
    types: list[TypeStats]
    queues: list[QueueStats]
    workers: list[Served]
    over_time: list[Point]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsQuery:
    """Selection of tenants and points."""

    tenant: Annotated[Text, described("Only jobs of this tenant.")] = NOT_GIVEN
    minutes: Annotated[int, described("Length of the window, in minutes.", ge=1, le=LONGEST_WINDOW)] = 60
    step: Annotated[int, described("Minutes of a point.", ge=1, le=LONGEST_WINDOW)] = 1
    by: Annotated[
        Literal["all", "type", "tenant"], described("Meaning of a line; the answer has at most ten lines.")
    ] = "all"


@stats.operation("GET /api/admin/jobs/stats")
def job_stats(call: OperatorCall, query: StatsQuery) -> JobStats:
    """Count jobs by type, and over time.

    Of all tenants of the operator's companies, or of one. The numbers equal the metrics at /metrics.
    """
    companies = call.principal.companies
    named = None if companies is None else list(companies)
    with as_operator() as operator, operator.transaction():
        return JobStats(
            counted_at=counted_until(operator),
            types=list(
                _of_all(counts.by_type(operator))
                if query.tenant is None and named is None
                else _of_some(counts.by_tenant(operator, tenant=query.tenant, companies=named))
            ),
            queues=[
                from_row(QueueStats, queue) for queue in counts.queued(operator, tenant=query.tenant, companies=named)
            ],
            workers=[
                from_row(Served, server)
                for server in counts.served(operator, timedelta(seconds=services().settings.dead_after_seconds))
            ],
            over_time=over_time(
                operator,
                window=timedelta(minutes=query.minutes),
                step=timedelta(minutes=query.step),
                by="" if query.by == "all" else query.by,
                tenant=query.tenant,
                companies=named,
            ),
        )


def _of_all(totals: Mapping[str, counts.TypeTotals]) -> Iterable[TypeStats]:
    for job_type, total in totals.items():
        numbers = {name: getattr(total, name) for name in SUMS if name != "run_ms"}
        yield _stats(job_type, total.outcomes, numbers | {"run_ms": total.run_ms.total()})


def _of_some(totals: Iterable[Row]) -> Iterable[TypeStats]:
    for job_type, rows in groupby(sorted(totals, key=itemgetter("type")), key=itemgetter("type")):
        outcomes, sums = Counter[str](), Counter[str]()
        for row in rows:
            outcomes[row["outcome"]] += row["outcomes"]
            if row["outcome"] not in counts.CLAIMS:
                sums.update({name: row[name] for name in SUMS})
        yield _stats(job_type, outcomes, sums)


def _stats(job_type: str, outcomes: Mapping[str, int], sums: Mapping[str, int]) -> TypeStats:
    waits = sum(many for outcome, many in outcomes.items() if outcome not in counts.CLAIMS)
    return TypeStats(
        type=job_type,
        attempts=sums["attempts"],
        items_done=sums["items_done"],
        items_failed=sums["items_failed"],
        outcomes=dict(outcomes),
        wait_mean_ms=sums["wait_ms"] / waits if waits else None,
        run_mean_ms=sums["run_ms"] / sums["attempts"] if sums["attempts"] else None,
    )
