"""The cost of a job and of a tenant, and the resulting load of a hundred to ten thousand tenants."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString

from benchmarks import claim, processor_time
from benchmarks.environment import KEY, open_environment
from benchmarks.report import Report
from benchmarks.resident import Client, children, pss_megabytes, resident
from benchmarks.sampling import Figure
from benchmarks.scaling_model import Costs, Load, breaks, need, simulate
from turno.capabilities.statistics.counts import queued
from turno.dispatch.dispatcher import ENQUEUE, submission
from turno.jobs.new_job import NewJob
from turno.store.operator.counts import worst_tenants
from turno.store.operator.troubles import troubles
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.session import call_as_api, service_session
from turno.wiring.shared import maintenance

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg import Connection

    from benchmarks.benchmark import Options
    from benchmarks.environment import BenchEnvironment
    from turno.tenancy.identity.tenant import Tenant

TENANTS, JOBS_A_DAY = (100, 1_000, 10_000), (100_000, 1_000_000, 10_000_000)
HANDLERS = "benchmarks.noop_handlers:HANDLERS"
TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")
CLAIMS = 6  # turns of eight claims each
# One job of each tenant: a claim takes few jobs then, and costs each of them most.
LONE = claim.Scene(tenants=10_000, waiting=10_000)
SCENES = (
    claim.Scene(tenants=10_000, waiting=200_000),
    LONE,
    claim.Scene(tenants=1_000, waiting=10_000),
    claim.Scene(tenants=100, waiting=10_000),
)
SCHEMAS: LiteralString = "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname LIKE 't\\_%'"
STORED: LiteralString = f"SELECT sum(pg_total_relation_size(c.oid)) {SCHEMAS} AND c.relkind = 'r'"
COUNTED: LiteralString = f"SELECT count(*) {SCHEMAS}"
WAL: LiteralString = "SELECT pg_current_wal_lsn() - '0/0'"
CATALOGS: LiteralString = (
    "SELECT sum(pg_total_relation_size(oid)) FROM pg_class"
    " WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind = 'r'"
)


def run(options: Options) -> Report:
    """Measure on a private server, then fill the table of the model and run its busiest hours."""
    report = Report("scaling", "ms a job")
    counts, jobs = options.of(((10, 50, 1_000), 2_000), quick=((5, 15, 40), 500), smoke=((1, 2, 3), 100))
    with open_environment() as bench, ExitStack() as stack:
        report.facts["claim, ms a job"] = claims = _claims(bench, stack, options)
        report.facts["operator's look at 10,000 tenants, ms"] = _operators_look(bench)
        costs = Costs(claim_ms=claims[LONE.name], **_costs(bench, counts, jobs, report))
    report.figures["turno, a warm job"] = Figure.of([costs.enqueue_db_ms + costs.run_db_ms])
    report.facts["costs"] = {name: round(value, 3) for name, value in asdict(costs).items()}
    for tenants in options.of(TENANTS, quick=TENANTS, smoke=TENANTS[:1]):
        for a_day in options.of(JOBS_A_DAY, quick=JOBS_A_DAY, smoke=JOBS_A_DAY[:1]):
            load = Load(tenants=tenants, jobs_a_day=a_day)
            result = need(load, costs)
            waits = simulate(load, costs, result.children, seconds=3_600 if a_day < JOBS_A_DAY[-1] else 600)
            report.facts[f"{tenants:,} tenants, {a_day:,} jobs a day"] = {
                **{name: round(value, 3) for name, value in asdict(result).items()},
                **{f"simulated {name}": round(value, 3) for name, value in asdict(waits).items()},
                "breaks": breaks(result),
            }
    return report


def _claims(bench: BenchEnvironment, stack: ExitStack, options: Options) -> dict[str, float]:
    result = {}
    for number, scene in enumerate(options.of(SCENES, quick=SCENES, smoke=(LONE,))):
        stage = claim.Stage(bench, stack, scene, f"scene_{number}")
        stage.turn()
        taken = [stage.turn()[0] for _ in range(options.of(CLAIMS, quick=CLAIMS, smoke=1))]
        result[scene.name] = round(sum(taken) / len(taken), 4)
    return result


def _operators_look(bench: BenchEnvironment) -> dict[str, float]:
    """Return the processor time of the queries of pages, commands and alerts in the database of the largest scene."""
    logins = Logins(bench.url_of("scene_0"), KEY.encode())
    looks: dict[str, Callable[[Connection[Any]], object]] = {
        "what is wrong": lambda operator: troubles(operator, timedelta(seconds=30)),
        "tenants' shares": worst_tenants,
        "queues": queued,
    }
    result = {}
    with service_session(logins, logins.operator, application="bench-operator") as operator:
        for name, look in looks.items():
            look(operator)
            before = processor_time.milliseconds(operator.info.backend_pid)
            look(operator)
            result[name] = round(processor_time.milliseconds(operator.info.backend_pid) - before, 1)
    return result


def _costs(bench: BenchEnvironment, counts: tuple[int, int, int], jobs: int, report: Report) -> dict[str, float]:
    """Measure with few and with more tenants; compare the prediction for many with a measurement of many."""
    few, some, many = counts
    empty, tenants = _scalar(bench, CATALOGS), _added(bench, [], few)
    upkeep = {few: _upkeep(bench)}
    _added(bench, tenants, some)
    upkeep[some] = _upkeep(bench)
    a_tenant = (upkeep[some] - upkeep[few]) / (some - few)
    tenant_bytes = (_scalar(bench, STORED) + _scalar(bench, CATALOGS) - empty) / some
    enqueue_ms, client_ms = _enqueue(bench, tenants[0], jobs // 4)
    report.facts["enqueue, ms of the client"] = round(client_ms, 3)
    with (
        resident(bench, fewest=2, most=2, handlers=HANDLERS, TURNO_LIMITS="child_sessions=1") as pool,
        Client(bench) as client,
    ):
        client.wait_until_idle()
        wal, stored = _scalar(bench, WAL), _scalar(bench, STORED)
        warm_db, warm_worker = (used / jobs for used in _drained(bench, client, pool.pid, {tenants[0]: jobs}))
        wal, stored = _scalar(bench, WAL) - wal, _scalar(bench, STORED) - stored
        cold_db, cold_worker = (used / some for used in _drained(bench, client, pool.pid, dict.fromkeys(tenants, 1)))
        _added(bench, tenants, many)
        there_db, there_worker = (used / many for used in _drained(bench, client, pool.pid, dict.fromkeys(tenants, 1)))
        worked = children(pool)
        child_mb = sum(map(pss_megabytes, worked)) / len(worked)
        parent_mb = pss_megabytes(pool.pid)
    upkeep[many] = _upkeep(bench)
    report.facts["upkeep, ms"] = {f"{count} tenants": round(used, 1) for count, used in upkeep.items()}
    report.facts[f"predicted and measured at {many} tenants"] = {
        "upkeep, ms": (round(upkeep[some] + (many - some) * a_tenant, 1), round(upkeep[many], 1)),
        "a lone job of each, database ms": (round(cold_db, 2), round(there_db, 2)),
        "a lone job of each, worker ms": (round(cold_worker, 2), round(there_worker, 2)),
    }
    return {
        "enqueue_db_ms": enqueue_ms,
        "run_db_ms": warm_db,
        "run_worker_ms": warm_worker,
        "cold_db_ms": max(0.0, cold_db - warm_db),
        "cold_worker_ms": max(0.0, cold_worker - warm_worker),
        "upkeep_db_ms": a_tenant,
        "wal_bytes": wal / jobs,
        "history_bytes": stored / jobs,
        "tenant_bytes": tenant_bytes,
        "relations": _scalar(bench, COUNTED) / many,
        "tables": _scalar(bench, f"SELECT count(*) {SCHEMAS} AND c.relkind = 'r'") / many,
        "child_mb": child_mb,
        "parent_mb": parent_mb,
    }


def _added(bench: BenchEnvironment, tenants: list[Tenant], up_to: int) -> list[Tenant]:
    tenants += [bench.tenant(f"suc{n:04}") for n in range(len(tenants), up_to)]
    # The catalog work after adding tenants is no running cost of tenants.
    bench.admin.execute("VACUUM ANALYZE pg_class, pg_attribute, pg_proc, pg_depend, turno.tickets")
    return tenants


def _enqueue(bench: BenchEnvironment, tenant: Tenant, times: int) -> tuple[float, float]:
    """Return the processor time of a job's INSERTs, the database's and the client's."""
    from benchmarks.noop_handlers import Tally  # noqa: PLC0415 - the handler is a detail of this module

    new = NewJob.of(Tally, {"number": 1}, backend="pool", user_id="ana")
    with service_session(bench.logins, bench.logins.web, application="bench-web") as web:
        for _ in range(20):
            call_as_api(web, tenant, ENQUEUE, submission(new))
        pid, own = web.info.backend_pid, time.process_time()
        before = processor_time.milliseconds(pid)
        for _ in range(times - 20):
            call_as_api(web, tenant, ENQUEUE, submission(new))
        used = processor_time.milliseconds(pid) - before
        return used / (times - 20), (time.process_time() - own) * 1000 / (times - 20)


def _drained(bench: BenchEnvironment, client: Client, pool: int, counts: dict[Tenant, int]) -> tuple[float, float]:
    """Return the processor time that the jobs took: the database's, the pool's."""
    from benchmarks.noop_handlers import Tally  # noqa: PLC0415

    new = NewJob.of(Tally, {"number": 1}, backend="pool", user_id="ana")
    with service_session(bench.logins, bench.logins.web, application="bench-web") as web:
        # The pool begins at once: the cost of the INSERTs is subtracted per session.
        inserting = processor_time.milliseconds(web.info.backend_pid)
        database, workers = _tree(bench.cluster.pid), _tree(pool)
        for tenant, count in counts.items():
            for _ in range(count):
                call_as_api(web, tenant, ENQUEUE, submission(new))
        inserted = processor_time.milliseconds(web.info.backend_pid) - inserting
        looked = processor_time.milliseconds(bench.admin.info.backend_pid)
        client.wait_until_idle()
        looked = processor_time.milliseconds(bench.admin.info.backend_pid) - looked
        return _tree(bench.cluster.pid) - database - inserted - looked, _tree(pool) - workers


def _upkeep(bench: BenchEnvironment) -> float:
    """Return the processor time of one round of every pass, when there is nothing to do; the second of two."""
    with_nothing = 0.0
    for _ in range(2):
        passes = maintenance(bench.settings(QUEUE_BACKEND="pool", TURNO_HANDLERS=HANDLERS))
        try:
            before = _tree(bench.cluster.pid)
            passes.run_once()
            with_nothing = _tree(bench.cluster.pid) - before
        finally:
            passes.close()
    return with_nothing


def _tree(pid: int) -> float:
    """Return the milliseconds of processor time of a process, its children and its ended children."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) * TICK_MS + sum(_tree(int(child)) for child in below)


def _scalar(bench: BenchEnvironment, question: LiteralString) -> float:
    row: Any = bench.admin.execute(question).fetchone()
    return float(row[0])
