"""Convert counts of the database into metric families."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder

from turno.capabilities.statistics.histogram import BOUNDS_MS, cumulative
from turno.capabilities.statistics.present import Queued, Served
from turno.capabilities.statistics.totals import ENDS, TenantTotal, TypeTotals
from turno.store.engine.workers import Unserved
from turno.store.operator.server import Server

LE = [*(f"{bound / 1000:g}" for bound in BOUNDS_MS), "+Inf"]
OTHER = "(other)"  # the type of jobs without a handler
GIVEN_BACK = ("crashed", "rescheduled", "released")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # a registry keeps it by identity
class Numbers:
    """The numbers of one scrape. `tenants` and `shares` are empty unless the request includes tenants."""

    totals: Mapping[str, TypeTotals]
    queues: Sequence[Queued]
    workers: Sequence[Served]
    unserved: Sequence[Unserved]
    server: Server
    dead_tuples: Mapping[str, int]
    fairness: float
    counted_at: datetime | None
    streams: int
    process: int
    tenants: Sequence[TenantTotal] = ()
    tenant_queues: Sequence[Queued] = ()
    shares: Sequence[Mapping[str, Any]] = ()

    def collect(self) -> Iterator[Metric]:
        """Yield every metric; a registry calls it."""
        yield from _of_types(self.totals)
        yield from _of_queues(self.queues, self.unserved)
        yield from _of_workers(self.workers, self.server)
        yield from _of_server(self.server, self.dead_tuples)
        yield _gauge("turno_fairness", "How evenly tenants with work are served.", [], [((), self.fairness)])
        counted = [((), self.counted_at.timestamp() if self.counted_at else 0)]
        yield _gauge("turno_statistics_timestamp_seconds", "Time of the last count of ended jobs.", [], counted)
        yield _gauge("turno_streams", "Open live streams of one web process.", ["process"],
                     [((str(self.process),), self.streams)])  # fmt: skip
        if self.tenants or self.tenant_queues or self.shares:
            yield from _of_tenants(self.tenants, self.tenant_queues, self.shares)


Samples = Iterable[tuple[Sequence[str], float]]


def _gauge(name: str, about: str, labels: Sequence[str], samples: Samples) -> Metric:
    family = GaugeMetricFamily(name, about, labels=labels)
    for values, number in samples:
        family.add_metric(values, number)
    return family


def _counter(name: str, about: str, labels: Sequence[str], samples: Samples) -> Metric:
    family = CounterMetricFamily(name, about, labels=labels)
    for values, number in samples:
        family.add_metric(values, number)
    return family


def _of_types(totals: Mapping[str, TypeTotals]) -> Iterator[Metric]:
    started = (((one,), total.attempts) for one, total in totals.items())
    yield _counter("turno_attempts", "Attempts that began and ended.", ["type"], started)
    # Jobs of unknown types become jobs of a type once a handler is announced: their number may decrease.
    submitted = (((one,), total.submitted) for one, total in totals.items() if one != OTHER)
    yield _counter("turno_jobs_submitted", "Jobs that were submitted.", ["type"], submitted)
    ended = (((one, end), total.outcomes[end]) for one, total in totals.items() for end in ENDS)
    yield _counter("turno_jobs_ended", "Jobs that are over, by outcome.", ["type", "outcome"], ended)
    items = (
        ((one, state), number)
        for one, total in totals.items()
        for state, number in (("done", total.items_done), ("failed", total.items_failed))
    )
    yield _counter("turno_items", "Items of jobs that are over.", ["type", "state"], items)
    for outcome, name, about in (
        ("retried", "turno_retries", "Attempts that failed and are tried again."),
        ("failed", "turno_dead_letters", "Jobs that failed for good."),
        ("rescued", "turno_rescues", "Jobs taken back from a process that died."),
        ("claim_lost", "turno_lost_claims", "Attempts that found their claim taken back and wrote nothing."),
    ):
        samples = [((one,), total.outcomes[outcome]) for one, total in totals.items()]
        yield _counter(name, about, ["type"], samples)
    back = (((one, end), total.outcomes[end]) for one, total in totals.items() for end in GIVEN_BACK)
    yield _counter("turno_attempts_given_back", "Attempts after which the job waits again.", ["type", "outcome"], back)
    wait = HistogramMetricFamily("turno_wait_seconds", "From when a job could run to its attempt.", labels=["type"])
    run = HistogramMetricFamily("turno_run_seconds", "Running time of attempts.", labels=["type", "outcome"])
    for one, total in totals.items():
        wait.add_metric([one], list(zip(LE, cumulative(total.waits), strict=True)), total.wait_ms / 1000)
        for outcome, runs in total.runs.items():
            buckets = list(zip(LE, cumulative(runs), strict=True))
            run.add_metric([one, outcome], buckets, total.run_ms[outcome] / 1000)
    yield wait
    yield run


def _of_queues(queues: Sequence[Queued], unserved: Sequence[Unserved]) -> Iterator[Metric]:
    labels = ["backend", "queue", "type"]
    samples = [
        ((one.backend, one.queue, one.type, state), getattr(one, state))
        for one in queues
        for state in ("scheduled", "waiting", "ready", "running")
    ]
    yield _gauge("turno_jobs", "Open jobs by state.", [*labels, "state"], samples)
    oldest = (((one.backend, one.queue, one.type), one.oldest_wait) for one in queues)
    yield _gauge("turno_oldest_wait_seconds", "For how long the oldest ready job waits.", labels, oldest)
    lacking = (((one.backend, one.queue, one.type, one.lacks), one.waiting) for one in unserved)
    yield _gauge("turno_unserved_jobs", "Ready jobs that no living worker can run.", [*labels, "lacks"], lacking)


def _of_workers(workers: Sequence[Served], server: Server) -> Iterator[Metric]:
    samples = [((one.backend, state), getattr(one, state)) for one in workers for state in ("alive", "silent")]
    yield _gauge("turno_workers", "Workers by backend.", ["backend", "state"], samples)
    yield _gauge("turno_maintenance", "1 if a process runs maintenance regularly.", [],
                 [((), server.steady_maintenance)])  # fmt: skip


def _of_server(server: Server, dead_tuples: Mapping[str, int]) -> Iterator[Metric]:
    for name, about, number in (
        ("turno_dead_letters_open", "Failures neither retried nor discarded.", server.open_dead_letters),
        ("turno_jobs_in_review", "Jobs that wait for a person's decision.", server.in_review),
        ("turno_relay_lag_seconds", "For how long the oldest job waits for the relay.", server.relay_lag),
        ("turno_notify_queue_ratio", "How full the queue of notifications is, up to 1.", server.notify_queue),
        ("turno_oldest_writer_transactions", "Transactions since the oldest that writes.", server.oldest_writer),
    ):
        yield _gauge(name, about, [], [((), number)])
    if server.oldest_transaction is not None:
        age = [((), server.oldest_transaction)]
        yield _gauge("turno_oldest_snapshot_seconds", "Age of the oldest transaction with a snapshot.", [], age)
    dead = (((table,), many) for table, many in dead_tuples.items())
    yield _gauge("turno_dead_tuples", "Dead rows of a control table.", ["table"], dead)


def _of_tenants(
    tenants: Sequence[TenantTotal], queues: Sequence[Queued], shares: Sequence[Mapping[str, Any]]
) -> Iterator[Metric]:
    ended = (((one.tenant, one.type, one.outcome), one.outcomes) for one in tenants)
    yield _counter("turno_tenant_outcomes", "Outcomes of a tenant.", ["tenant", "type", "outcome"], ended)
    waiting = (((one.tenant, one.type), one.ready) for one in queues)
    yield _gauge("turno_tenant_jobs_ready", "A tenant's jobs that could run.", ["tenant", "type"], waiting)
    oldest = (((one.tenant, one.type), one.oldest_wait) for one in queues)
    yield _gauge("turno_tenant_oldest_wait_seconds", "A tenant's oldest wait.", ["tenant", "type"], oldest)
    for column, name, about in (
        ("share", "turno_tenant_share", "A tenant's share of the running time."),
        ("fair_share", "turno_tenant_fair_share", "The share that its weight gives it."),
    ):
        yield _gauge(name, about, ["tenant"], [((one["slug"],), one[column] or 0) for one in shares])


def exposition(numbers: Numbers, accepted: str) -> tuple[bytes, str]:
    """Return the metrics as text, with its media type: the format that the scraper's Accept header selects."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(numbers)
    encode, media_type = choose_encoder(accepted)
    return encode(registry), media_type
