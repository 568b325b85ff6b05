"""The resources of an installation, from the cost of a job and of a tenant: arithmetic, and a simulation."""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import dataclass

DAY, HOUR = 86_400, 3_600
BUSY = 0.7  # of children and of processors in the busiest hour; more, and waits grow faster than the load
HOST_CHILDREN = 8  # of one pool; a host has one
UPKEEP_SECONDS = 300  # a round of the passes that ask every tenant should be over when the next is due
SESSIONS_BESIDE = 60  # webs, parents' and their listeners', a maintenance process, operators
LOCKS_PER_TRANSACTION, LOCK_SESSIONS = 64, 100  # PostgreSQL's defaults
SESSIONS, CORES, RELATIONS = 1_000, 64, 500_000  # our estimate of the capacity of a server; not measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Measured one by one: milliseconds of processor time, bytes, megabytes."""

    enqueue_db_ms: float
    run_db_ms: float
    run_worker_ms: float
    cold_db_ms: float  # more, for a batch whose tenant's session the child has not kept
    cold_worker_ms: float
    claim_ms: float
    upkeep_db_ms: float  # one round, for each tenant
    wal_bytes: float  # one job, enqueue to end
    history_bytes: float
    tenant_bytes: float  # a schema without a job, catalog included
    relations: float  # of a tenant
    tables: float
    child_mb: float
    parent_mb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The number of tenants and jobs, and the duration of a job's own work."""

    tenants: int
    jobs_a_day: int
    job_seconds: float = 0.5
    job_db_share: float = 0.2  # of that time the database is computing for it
    peak: float = 5.0  # the busiest hour beside the day's mean
    retention_days: int = 30
    kept_sessions: int = 4

    @property
    def peak_a_second(self) -> float:
        """Return how many jobs come in a second of the busiest hour."""
        return self.jobs_a_day / DAY * self.peak


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """The resources in the busiest hour, and the stored data."""

    jobs_a_second: float
    children: int
    hosts: int
    worker_memory_gb: float
    sessions: int
    turno_db_cores: float
    job_db_cores: float
    upkeep_seconds: float
    wal_gb_a_day: float
    history_gb: float
    schemas_gb: float
    relations: int
    locks_to_dump: int


def need(load: Load, costs: Costs) -> Need:
    """Return the resources for the load; every job is thought to be the only one of its tenant that a child finds."""
    rate = load.peak_a_second
    # The probability that a child has kept a tenant's session is the share of kept sessions among active tenants.
    at_work = max(1.0, min(load.tenants, rate * 30))  # a session is kept for 30 s
    cold = max(0.0, 1 - load.kept_sessions / at_work)
    child_ms = costs.run_worker_ms + cold * (costs.cold_worker_ms + costs.cold_db_ms)
    job_seconds = load.job_seconds + child_ms / 1000
    children = math.ceil(max(1.0, rate * job_seconds / BUSY))
    hosts = math.ceil(children / HOST_CHILDREN)
    turno_ms = costs.enqueue_db_ms + costs.run_db_ms + cold * costs.cold_db_ms + costs.claim_ms
    upkeep = load.tenants * costs.upkeep_db_ms / 1000
    return Need(
        jobs_a_second=rate,
        children=children,
        hosts=hosts,
        worker_memory_gb=(children * costs.child_mb + hosts * costs.parent_mb) / 1024,
        sessions=children * (2 + min(load.kept_sessions, math.ceil(at_work))) + SESSIONS_BESIDE,
        turno_db_cores=(rate * turno_ms / 1000 + upkeep / UPKEEP_SECONDS) / BUSY,
        job_db_cores=rate * load.job_seconds * load.job_db_share / BUSY,
        upkeep_seconds=upkeep,
        wal_gb_a_day=load.jobs_a_day * costs.wal_bytes / 1e9,
        history_gb=load.jobs_a_day * load.retention_days * costs.history_bytes / 1e9,
        schemas_gb=load.tenants * costs.tenant_bytes / 1e9,
        relations=round(load.tenants * costs.relations),
        locks_to_dump=round(load.tenants * costs.tables),
    )


def breaks(need: Need) -> list[str]:
    """Return which limits of PostgreSQL as it comes, and of one large server, are passed."""
    limits = {
        "pg_dump of all needs max_locks_per_transaction raised": need.locks_to_dump
        > LOCKS_PER_TRANSACTION * LOCK_SESSIONS,
        "upkeep does not end within its period": need.upkeep_seconds > UPKEEP_SECONDS,
        "more sessions than a server takes well": need.sessions > SESSIONS,
        "more processors than one server has": need.turno_db_cores + need.job_db_cores > CORES,
        "more relations than catalogs and autovacuum take well": need.relations > RELATIONS,
    }
    return [name for name, passed in limits.items() if passed]


@dataclass(frozen=True, slots=True)
class Waits:
    """How long jobs waited in a simulated hour, in seconds, and how busy the children were."""

    p50: float
    p95: float
    busy: float
    batches_cold: float


def simulate(load: Load, costs: Costs, children: int, *, seconds: float = HOUR, seed: int = 1) -> Waits:
    """Run the busiest hour: jobs come by chance, their tenants by Zipf's law, children keep sessions.

    A few tenants submit most, as they do; the model thinks that all submit alike. First come, first served.
    """
    chance = random.Random(seed)  # noqa: S311 - the same hour each time
    weights = [1 / rank for rank in range(1, load.tenants + 1)]
    total = sum(weights)
    edges, so_far = [], 0.0
    for weight in weights:
        so_far += weight / total
        edges.append(so_far)
    free = [(0.0, child) for child in range(children)]
    kept: list[dict[int, float]] = [{} for _ in range(children)]
    now, worked, cold = 0.0, 0.0, 0
    waits: list[float] = []
    picks = iter(chance.choices(range(load.tenants), cum_weights=edges, k=int(load.peak_a_second * seconds * 1.2) + 99))
    while (now := now + chance.expovariate(load.peak_a_second)) < seconds:
        at, child = heapq.heappop(free)
        tenant, start = next(picks), max(now, at)
        sessions = kept[child]
        took = chance.expovariate(1 / load.job_seconds) + costs.run_worker_ms / 1000
        if sessions.get(tenant, -math.inf) < start - 30:
            cold += 1
            took += (costs.cold_worker_ms + costs.cold_db_ms) / 1000
        sessions.pop(tenant, None)
        sessions[tenant] = start + took
        if len(sessions) > load.kept_sessions:
            del sessions[next(iter(sessions))]
        waits.append(start - now)
        worked += took
        heapq.heappush(free, (start + took, child))
    waits.sort()
    many = len(waits)
    return Waits(waits[many // 2], waits[many * 95 // 100], worked / (seconds * children), cold / many)
