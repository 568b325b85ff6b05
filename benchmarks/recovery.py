"""Kill -9 until the job runs again: of a child beneath its living parent, and of a worker that another replaces."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from benchmarks.environment import open_environment
from benchmarks.report import Report
from benchmarks.resident import Client, resident
from benchmarks.sampling import quantile

if TYPE_CHECKING:
    from benchmarks.benchmark import Options
    from benchmarks.environment import BenchEnvironment
    from turno.tenancy.identity.tenant import Tenant

CHILD, WORKER = "child killed", "worker killed"
LENGTH = 300.0  # seconds the first attempt would take; the second is done at once
QUICK_PACE = {"TURNO_HEARTBEAT_SECONDS": "2", "TURNO_DEAD_AFTER_SECONDS": "6"}
SMOKE_PACE = {"TURNO_HEARTBEAT_SECONDS": "0.5", "TURNO_DEAD_AFTER_SECONDS": "2"}


def run(options: Options) -> Report:
    """Measure with no back-off after a child's death, so that only noticing and starting again take time."""
    report = Report("recovery", "ms")
    timings = options.of({}, quick=QUICK_PACE, smoke=SMOKE_PACE)
    with open_environment() as bench, Client(bench) as client:
        tenant = bench.tenant("suc0001")
        with resident(bench, fewest=2, most=2):
            children = [_of_a_child(client, tenant) for _ in range(options.of(300, quick=20, smoke=1))]
        workers = [_of_a_worker(bench, client, tenant, timings) for _ in range(options.of(3, quick=1, smoke=1))]
        unfinished = "SELECT FROM background_jobs WHERE status <> 'completed' OR attempt <> 2"
        report.facts["not completed at their second attempt"] = bench.in_schema(tenant).execute(unfinished).rowcount
    report.add({CHILD: children, WORKER: workers})
    report.facts[f"{CHILD}, p99"] = quantile(children, 0.99)
    report.facts[f"{WORKER}, longest, back-off of 5 s included"] = max(workers)
    report.facts["pace of the killed worker"] = timings or "default"
    report.wanted |= {
        "not completed at their second attempt": 0,
        f"{CHILD}, p99": 1_000.0,
        f"{WORKER}, longest, back-off of 5 s included": 50_000.0,
    }
    return report


def _of_a_child(client: Client, tenant: Tenant) -> float:
    client.enqueue(tenant, seconds=LENGTH)
    pid = client.hear().pid
    killed = time.monotonic_ns()
    os.kill(pid, signal.SIGKILL)
    took = (client.hear().at - killed) / 1e6
    client.wait_until_idle()
    return took


def _of_a_worker(bench: BenchEnvironment, client: Client, tenant: Tenant, timings: dict[str, str]) -> float:
    with resident(bench, fewest=1, most=1, **timings) as doomed:
        client.enqueue(tenant, seconds=LENGTH)
        client.hear()
        with resident(bench, fewest=1, most=1, **timings):
            killed = time.monotonic_ns()
            doomed.kill()
            took = (client.hear(within=120).at - killed) / 1e6
            client.wait_until_idle()
    return took
