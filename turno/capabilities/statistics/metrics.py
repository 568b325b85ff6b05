"""GET /metrics: the numbers of the database as metric families."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from hmac import compare_digest
from itertools import accumulate
from os import getpid
from typing import Annotated

from flask import Response, request
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder

from turno.capabilities.statistics import counts
from turno.capabilities.statistics.counts import ENDS, TypeTotals
from turno.store.engine.workers import Unserved, unserved
from turno.store.operator.counts import Operator, Row, counted_until, rows, worst_tenants
from turno.store.operator.troubles import UNSERVED_FOR
from turno.web.admission import require_operator
from turno.web.auth import principal_of
from turno.web.requests import described, read_query
from turno.web.responses import Kind, Problem
from turno.web.routes import Answer, Routes
from turno.web.services import as_operator, services

metrics = Routes("metrics", __name__, tag="health")

# The same as outcome_bounds() of the control schema; bucket n holds times above BOUNDS_MS[n - 1] up to BOUNDS_MS[n].
# The bucket after the last has no bound.
BOUNDS_MS = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000),
    *(600_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, 86_400_000),
)
LE = [*(f"{bound / 1000:g}" for bound in BOUNDS_MS), "+Inf"]
OTHER = "(other)"  # the type of jobs without a handler
GIVEN_BACK = ("crashed", "rescheduled", "released")
WITHIN = "SET LOCAL statement_timeout = 5000"  # milliseconds: the monitoring system stops waiting
# Ages are in seconds; the oldest writer is in transactions: the number begun since the oldest that writes. Without
# membership in pg_read_all_stats the operator's login does not see the transactions of other logins.
SERVER = """
SELECT pg_notification_queue_usage() AS notify_queue,
       pg_snapshot_xmax(s)::text::bigint - pg_snapshot_xmin(s)::text::bigint AS oldest_writer,
       CASE WHEN pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') THEN (
           SELECT greatest(0, extract(epoch FROM clock_timestamp() - min(xact_start))) FROM pg_stat_activity
           WHERE datname = current_database() AND backend_xmin IS NOT NULL)::float END AS oldest_snapshot,
       greatest(0, coalesce(extract(epoch FROM clock_timestamp() - b.unpublished_since), 0))::float AS relay_lag,
       EXISTS (SELECT FROM leases WHERE name = 'steady sweeps' AND until > clock_timestamp()) AS steady_maintenance,
       b.open_dead_letters,
       (SELECT coalesce(sum(tickets), 0) FROM ticket_counts WHERE state = 'review')::bigint AS in_review
FROM pg_current_snapshot() AS s CROSS JOIN backlogs b
"""
DEAD_TUPLES = """
SELECT c.relname AS name, pg_stat_get_dead_tuples(c.oid) AS tuples FROM pg_class c
WHERE c.relnamespace = 'turno'::regnamespace AND c.relkind = 'r'
  AND c.relname IN ('tickets', 'outcome_batches', 'statistics', 'workers', 'leases', 'rate_limits')
ORDER BY c.relname
"""
Samples = Iterable[tuple[Sequence[str], float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsQuery:
    """Selection of metrics."""

    tenants: Annotated[bool, described("Add the metrics of each tenant.")] = False


@metrics.operation(
    "GET /metrics",
    everybody=True,
    query=MetricsQuery,
    answers={200: Answer(about="Every metric.", media_type="text/plain")},
    problems=(Kind.INVALID_REQUEST, Kind.NOT_AUTHENTICATED, Kind.OPERATORS_ONLY, Kind.UNAVAILABLE),
)
def scraped() -> Response:
    """Read numbers for a monitoring system.

    In the format of Prometheus, or of OpenMetrics if the request accepts it. The bearer token is TURNO_METRICS_TOKEN or
    the token of an operator of every company.
    """
    _admit()
    query = read_query(request.args, MetricsQuery)
    dead_after = timedelta(seconds=services().settings.dead_after_seconds)
    with as_operator() as operator:
        samples = scrape(operator, dead_after=dead_after, streams=len(services().live), tenants=query.tenants)
    encode, media_type = choose_encoder(request.headers.get("Accept", ""))
    return Response(encode(Scraped(samples)), content_type=media_type)


class Scraped(CollectorRegistry):
    """A registry with the metrics of one request."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        super().__init__(auto_describe=False)
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        yield from self._metrics


def _admit() -> None:
    """Raise Problem 401 or 403 unless the caller is the monitoring system or an operator of every company."""
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    token = services().settings.metrics_token
    if token and scheme.lower() == "bearer" and compare_digest(given.strip().encode(), token.encode()):
        return
    principal = principal_of(request)
    require_operator(principal)
    if not principal.everywhere:
        raise Problem(Kind.OPERATORS_ONLY, "All companies share these numbers: it takes an operator of every company.")


def scrape(operator: Operator, *, dead_after: timedelta, streams: int, tenants: bool) -> list[Metric]:
    """Return every metric, of each tenant too if `tenants`, read in one transaction."""
    with operator.transaction():
        operator.execute(WITHIN)
        metrics = [
            *_of_types(counts.by_type(operator)),
            *_of_queues(counts.queued(operator), unserved(operator, UNSERVED_FOR)),
            *_of_workers(counts.served(operator, dead_after)),
            *_of_server(operator),
            _gauge(
                "turno_streams", "Open live streams of one web process.", ["process"], [((str(getpid()),), streams)]
            ),
        ]
        if tenants:
            shares = worst_tenants(operator)
            metrics += _of_tenants(counts.by_tenant(operator), counts.queued(operator, tenants=True), shares)
        return metrics


def evenness(operator: Operator) -> float:
    """Return Jain's index of the shares over the fair shares: 1 if all are served alike, 1/n if one of n has all.

    Tenants without waiting jobs are left out.
    """
    (row,) = rows(
        operator,
        """
        WITH recent AS (
            SELECT scope AS tenant_id, sum(run_ms)::float8 AS run_ms FROM statistics
            WHERE scope > 0 AND minute > now() - interval '15 minutes' GROUP BY scope
        ), served AS (
            SELECT coalesce(r.run_ms, 0) / n.weight AS ratio
            FROM (SELECT DISTINCT tenant_id FROM ticket_counts WHERE state = 'ready') AS w
            JOIN tenants n ON n.id = w.tenant_id LEFT JOIN recent r ON r.tenant_id = w.tenant_id
        )
        SELECT coalesce(sum(ratio) ^ 2 / nullif(count(*) * sum(ratio ^ 2), 0), 1) AS evenness FROM served
        """,
    )
    return float(row["evenness"])


def _gauge(name: str, about: str, labels: Sequence[str], samples: Samples) -> Metric:
    return _filled(GaugeMetricFamily(name, about, labels=labels), samples)


def _counter(name: str, about: str, labels: Sequence[str], samples: Samples) -> Metric:
    return _filled(CounterMetricFamily(name, about, labels=labels), samples)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, samples: Samples) -> Metric:
    for values, number in samples:
        family.add_metric(values, number)
    return family


def _of_types(totals: Mapping[str, TypeTotals]) -> Iterator[Metric]:
    started = (((labels,), total.attempts) for labels, total in totals.items())
    yield _counter("turno_attempts", "Attempts that began and ended.", ["type"], started)
    # Jobs of unknown types become jobs of a type once a handler is announced: their number may decrease.
    submitted = (((labels,), total.submitted) for labels, total in totals.items() if labels != OTHER)
    yield _counter("turno_jobs_submitted", "Jobs that were submitted.", ["type"], submitted)
    ended = (((labels, end), total.outcomes[end]) for labels, total in totals.items() for end in ENDS)
    yield _counter("turno_jobs_ended", "Jobs that are over, by outcome.", ["type", "outcome"], ended)
    items = (
        ((labels, state), number)
        for labels, total in totals.items()
        for state, number in (("done", total.items_done), ("failed", total.items_failed))
    )
    yield _counter("turno_items", "Items of jobs that are over.", ["type", "state"], items)
    for outcome, name, about in (
        ("retried", "turno_retries", "Attempts that failed and are tried again."),
        ("failed", "turno_dead_letters", "Jobs that failed for good."),
        ("rescued", "turno_rescues", "Jobs taken back from a process that died."),
        ("claim_lost", "turno_lost_claims", "Attempts that found their claim taken back and wrote nothing."),
    ):
        samples = [((labels,), total.outcomes[outcome]) for labels, total in totals.items()]
        yield _counter(name, about, ["type"], samples)
    back = (((labels, end), total.outcomes[end]) for labels, total in totals.items() for end in GIVEN_BACK)
    yield _counter("turno_attempts_given_back", "Attempts after which the job waits again.", ["type", "outcome"], back)
    wait = HistogramMetricFamily("turno_wait_seconds", "From when a job could run to its attempt.", labels=["type"])
    run = HistogramMetricFamily("turno_run_seconds", "Running time of attempts.", labels=["type", "outcome"])
    for labels, total in totals.items():
        wait.add_metric([labels], list(zip(LE, cumulative(total.waits), strict=True)), total.wait_ms / 1000)
        for outcome, runs in total.runs.items():
            buckets = list(zip(LE, cumulative(runs), strict=True))
            run.add_metric([labels, outcome], buckets, total.run_ms[outcome] / 1000)
    yield wait
    yield run


def _of_queues(queues: Sequence[Row], unserved: Sequence[Unserved]) -> Iterator[Metric]:
    labels = ["backend", "queue", "type"]
    samples = [
        ((queue["backend"], queue["queue"], queue["type"], state.replace("_", " ")), queue[state])
        for queue in queues
        for state in ("scheduled", "needs_review", "waiting", "blocked", "running")
    ]
    yield _gauge("turno_jobs", "Open jobs by state.", [*labels, "state"], samples)
    oldest = (((queue["backend"], queue["queue"], queue["type"]), queue["oldest_wait"]) for queue in queues)
    yield _gauge("turno_oldest_wait_seconds", "For how long the oldest waiting job could run.", labels, oldest)
    lacking = (((lane.backend, lane.queue, lane.type, lane.lacks), lane.waiting) for lane in unserved)
    yield _gauge("turno_unserved_jobs", "Waiting jobs that no living worker can run.", [*labels, "lacks"], lacking)


def _of_workers(workers: Sequence[Row]) -> Iterator[Metric]:
    samples = [((worker["backend"], state), worker[state]) for worker in workers for state in ("alive", "silent")]
    yield _gauge("turno_workers", "Workers by backend.", ["backend", "state"], samples)


def _of_server(operator: Operator) -> Iterator[Metric]:
    (server,) = rows(operator, SERVER)
    for column, name, about in (
        ("steady_maintenance", "turno_maintenance", "1 if a process runs maintenance regularly."),
        ("open_dead_letters", "turno_dead_letters_open", "Failures neither retried nor discarded."),
        ("in_review", "turno_jobs_in_review", "Jobs that wait for a person's decision."),
        ("relay_lag", "turno_relay_lag_seconds", "For how long the oldest job waits for the relay."),
        ("notify_queue", "turno_notify_queue_ratio", "How full the queue of notifications is, up to 1."),
        ("oldest_writer", "turno_oldest_writer_transactions", "Transactions since the oldest that writes."),
        ("oldest_snapshot", "turno_oldest_snapshot_seconds", "Age of the oldest transaction with a snapshot."),
    ):
        if server[column] is not None:
            yield _gauge(name, about, [], [((), server[column])])
    tables = (((row["name"],), row["tuples"]) for row in rows(operator, DEAD_TUPLES))
    yield _gauge("turno_dead_tuples", "Dead rows of a control table.", ["table"], tables)
    yield _gauge("turno_fairness", "How evenly tenants with work are served.", [], [((), evenness(operator))])
    counted_at = counted_until(operator)
    counted = [((), counted_at.timestamp() if counted_at else 0)]
    yield _gauge("turno_statistics_timestamp_seconds", "Time of the last count of ended jobs.", [], counted)


def _of_tenants(tenants: Sequence[Row], queues: Sequence[Row], shares: Sequence[Row]) -> Iterator[Metric]:
    ended = (((tenant["tenant"], tenant["type"], tenant["outcome"]), tenant["outcomes"]) for tenant in tenants)
    yield _counter("turno_tenant_outcomes", "Outcomes of a tenant.", ["tenant", "type", "outcome"], ended)
    waiting = (((queue["tenant"], queue["type"]), queue["waiting"]) for queue in queues)
    yield _gauge("turno_tenant_jobs_waiting", "A tenant's jobs that could run.", ["tenant", "type"], waiting)
    oldest = (((queue["tenant"], queue["type"]), queue["oldest_wait"]) for queue in queues)
    yield _gauge("turno_tenant_oldest_wait_seconds", "A tenant's oldest wait.", ["tenant", "type"], oldest)
    for column, name, about in (
        ("share", "turno_tenant_share", "A tenant's share of the running time."),
        ("fair_share", "turno_tenant_fair_share", "The share that its weight gives it."),
    ):
        yield _gauge(name, about, ["tenant"], [((tenant["tenant"],), tenant[column] or 0) for tenant in shares])


def cumulative(counts: Mapping[int, int]) -> list[int]:
    """Return the number of times up to each of BOUNDS_MS, and last the number of all."""
    return list(accumulate(counts.get(bucket, 0) for bucket in range(len(BOUNDS_MS) + 1)))
