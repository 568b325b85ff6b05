"""One fleet for more and more tenants: idle cost, connections under load and after it, and a warm pick-up."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, LiteralString

from benchmarks import processor_time
from benchmarks.environment import open_environment
from benchmarks.report import Report
from benchmarks.resident import Client, children, pss_megabytes, resident
from benchmarks.sampling import Figure, quantile

if TYPE_CHECKING:
    import subprocess

    from benchmarks.benchmark import Options
    from benchmarks.environment import BenchEnvironment
    from turno.tenancy.identity.tenant import Tenant

CHILDREN, KEPT = 2, 4
BASELINE = 2  # sessions of an idle pool: the engine's and its listener's
IDLE_SECONDS = 37.0  # seconds: a child looks at its idle sessions every few, and ends those unused for thirty
SESSIONS: LiteralString = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE application_name IN ('turno-engine', 'turno-listener') OR application_name LIKE 'turno-handler%'"
)


def run(options: Options) -> Report:
    """Measure the same pool beside 1 tenant and beside many."""
    report = Report("tenants", "ms")
    counts = options.of((1, 20, 100, 1_000), quick=(1, 20), smoke=(1, 2))
    tenants: list[Tenant] = []
    seen: list[dict[str, float]] = []
    with open_environment() as bench, Client(bench) as client:
        for count in counts:
            tenants += [bench.tenant(f"suc{n:04}") for n in range(len(tenants), count)]
            took, facts = _measured(bench, client, tenants, options)
            report.figures[f"warm pick-up, {count} tenants"] = Figure.of(took)
            report.facts[f"{count} tenants"] = facts
            seen.append(facts)
    _judge(report, seen)
    return report


def _judge(report: Report, seen: list[dict[str, float]]) -> None:
    first, last = seen[0], seen[-1]
    report.facts |= {
        "memory ratio": last["idle PSS, MB"] / first["idle PSS, MB"],
        # Less than half a percent is nothing.
        "cpu ratio": max(last["idle CPU, %"], 0.5) / max(first["idle CPU, %"], 0.5),
        "pick-up ratio": last["warm p50, ms"] / first["warm p50, ms"],
        "pick-up ratio, processor": last["processor ms a pick-up"] / first["processor ms a pick-up"],
        "most sessions": max(facts["sessions at work"] for facts in seen),
        "sessions over the baseline after 30 s": max(facts["sessions after"] - BASELINE for facts in seen),
    }
    report.wanted |= {
        "memory ratio": 1.1,
        "cpu ratio": 1.1,
        "pick-up ratio": 1.2,
        "pick-up ratio, processor": 1.2,
        # The supervisor's own: the engine's, its listener's, and at times the maintenance process's.
        "most sessions": CHILDREN * (2 + KEPT) + 3,
        "sessions over the baseline after 30 s": 0,
    }


def _measured(
    bench: BenchEnvironment, client: Client, tenants: list[Tenant], options: Options
) -> tuple[list[float], dict[str, float]]:
    facts: dict[str, float] = {}
    with resident(bench, fewest=CHILDREN, most=CHILDREN, TURNO_LIMITS=f"child_sessions={KEPT}") as pool:
        for tenant in tenants:
            client.backlog(tenant, max(3, 120 // len(tenants)))
        facts["sessions at work"] = 0
        while _count(bench, "SELECT count(*) FROM turno.tickets"):
            facts["sessions at work"] = max(facts["sessions at work"], _count(bench, SESSIONS))
        # The catalog work after adding tenants is no running cost of tenants.
        bench.admin.execute("VACUUM ANALYZE pg_class, pg_attribute, pg_proc, pg_depend, turno.tickets")
        for _ in range(CHILDREN * 10):
            client.pick_up(tenants[0])
        times, workers = options.of(200, quick=50, smoke=2), _processes(bench, pool)
        before = processor_time.milliseconds(*workers)
        took = [client.pick_up(tenants[0]) for _ in range(times)]
        facts["processor ms a pick-up"] = (processor_time.milliseconds(*workers) - before) / times
        facts["warm p50, ms"] = quantile(took, 0.5)
        time.sleep(options.of(IDLE_SECONDS, quick=IDLE_SECONDS, smoke=0.0))
        facts["sessions after"] = min(_count(bench, SESSIONS) for _ in range(100))
        facts["idle PSS, MB"] = sum(map(pss_megabytes, (pool.pid, *children(pool))))
        facts["idle CPU, %"] = _idle_percent(pool, options.of(20.0, quick=10.0, smoke=0.5))
    return took, facts


def _processes(bench: BenchEnvironment, pool: subprocess.Popen[bytes]) -> list[int]:
    """Return the processes of the pool and its server processes in the database."""
    backends = bench.admin.execute("SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'turno-%'").fetchall()
    return [pool.pid, *children(pool), *(pid for (pid,) in backends)]


def _idle_percent(pool: subprocess.Popen[bytes], seconds: float) -> float:
    processes = (pool.pid, *children(pool))
    before = processor_time.milliseconds(*processes)
    time.sleep(seconds)  # whole periods of the maintenance, or chance would say how many rounds of it are counted
    return (processor_time.milliseconds(*processes) - before) / seconds / 10


def _count(bench: BenchEnvironment, question: LiteralString) -> int:
    row = bench.admin.execute(question).fetchone()
    return int(row[0]) if row else 0
