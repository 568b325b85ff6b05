"""Fifty jobs of thirty seconds at once under one pool: that all run together, and what that takes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks.environment import open_environment
from benchmarks.report import Report
from benchmarks.resident import Client, children, pss_megabytes, resident

if TYPE_CHECKING:
    from typing import Any

    import psycopg

    from benchmarks.benchmark import Options
    from benchmarks.environment import BenchEnvironment
    from turno.tenancy.identity.tenant import Tenant

JOBS, TENANTS = 50, 5
LONGEST_SILENCE = 15.0  # seconds: a heartbeat, and half of one


def run(options: Options) -> Report:
    """Measure from each enqueue to the job's first line, and to the end of all."""
    report = Report("concurrent", "ms")
    seconds = options.of(30.0, quick=10.0, smoke=1.0)
    jobs = options.of(JOBS, quick=JOBS, smoke=4)
    silences = []
    with open_environment() as bench, Client(bench) as client:
        tenants = [bench.tenant(f"suc{n}") for n in range(TENANTS)]
        with resident(bench, fewest=1, most=jobs, TURNO_LIMITS="child_sessions=1") as pool:
            start = time.monotonic()
            begun = [client.enqueue(tenants[n % TENANTS], str(n), seconds=seconds) for n in range(jobs)]
            rung = [client.hear() for _ in range(jobs)]
            processes = {ring.pid for ring in rung} & set(children(pool))
            report.facts["children at once"] = len(processes)
            report.facts["PSS of a child, MB"] = sum(map(pss_megabytes, processes)) / len(processes)
            report.facts["sessions"] = _sessions(bench.admin)
            silences.append(_silence(bench.admin))
            while time.monotonic() < start + seconds:
                time.sleep(0.5)
                silences.append(_silence(bench.admin))
            client.wait_until_idle()
            took = time.monotonic() - start
        report.facts["not completed at their first attempt"] = _unfinished(bench, tenants)
    report.add({"first line": [(ring.at - begun[int(ring.word)]) / 1e6 for ring in rung]})
    report.facts["longest silence of the worker, s"] = max(silences)
    report.facts["all ended after, s"] = took
    report.facts["ratio"] = took / seconds
    report.wanted |= {
        "children at once": jobs,
        "not completed at their first attempt": 0,
        "longest silence of the worker, s": LONGEST_SILENCE,
        "ratio": 1.5,
    }
    return report


def _sessions(admin: psycopg.Connection[Any]) -> int:
    row = admin.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'turno-%'").fetchone()
    return int(row[0]) if row else 0


def _silence(admin: psycopg.Connection[Any]) -> float:
    row = admin.execute("SELECT extract(epoch FROM clock_timestamp() - min(alive_at)) FROM turno.workers").fetchone()
    return float(row[0]) if row else 0.0


def _unfinished(bench: BenchEnvironment, tenants: list[Tenant]) -> int:
    question = "SELECT FROM background_jobs WHERE status <> 'completed' OR attempt <> 1"
    return sum(bench.in_schema(tenant).execute(question).rowcount for tenant in tenants)
