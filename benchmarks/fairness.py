"""The wait of a quiet tenant behind ten thousand jobs of another tenant, also if all of these are urgent."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.environment import open_environment
from benchmarks.report import Report
from benchmarks.resident import Client, resident
from benchmarks.sampling import quantile
from turno.jobs.job import Priority

if TYPE_CHECKING:
    from benchmarks.benchmark import Options
    from benchmarks.environment import BenchEnvironment
    from turno.tenancy.identity.tenant import Tenant

SLOTS = 4
LENGTH, SHORT = 0.2, 0.005  # seconds a job takes
BACKLOG = 10_000
AT_MOST_LENGTHS, AT_MOST_MS_BEHIND_SHORT_JOBS = 1.5, 40.0


class Scene(NamedTuple):
    """The backlog of the other tenant and the duration of each job."""

    jobs: int
    priority: Priority = Priority.NORMAL
    seconds: float = LENGTH


SCENES = {
    "nobody else": Scene(0),
    "10,000 jobs": Scene(BACKLOG),
    "10,000 urgent jobs": Scene(BACKLOG, Priority.URGENT),
    "10,000 jobs of 5 ms": Scene(BACKLOG, seconds=SHORT),
}


def run(options: Options) -> Report:
    """Keep every child of a pool busy with one tenant's backlog and measure how long another's single jobs wait."""
    report = Report("fairness", "ms")
    jobs = options.of(150, quick=20, smoke=2)
    with open_environment() as bench, Client(bench) as client:
        busy, quiet = bench.tenant("busy"), bench.tenant("quiet")
        samples = {}
        for name, scene in SCENES.items():
            _clear(bench, busy, quiet)
            if scene.jobs:
                client.backlog(
                    busy,
                    options.of(scene.jobs, quick=scene.jobs, smoke=20),
                    seconds=scene.seconds,
                    priority=scene.priority,
                )
            with resident(bench, fewest=SLOTS, most=SLOTS):
                samples[name] = _waits(client, quiet, jobs, scene.seconds)
    report.add(samples)
    p95 = {name: quantile(waits, 0.95) for name, waits in samples.items()}
    lengths = {name: p95[name] / 1000 / scene.seconds for name, scene in SCENES.items() if scene.seconds == LENGTH}
    report.facts |= {"children": SLOTS, "one job's length": LENGTH * 1000, "p95 wait in job lengths": lengths}
    report.facts |= {"ratio": max(lengths.values()), "p95 behind jobs of 5 ms": p95["10,000 jobs of 5 ms"]}
    report.wanted |= {"ratio": AT_MOST_LENGTHS, "p95 behind jobs of 5 ms": AT_MOST_MS_BEHIND_SHORT_JOBS}
    return report


def _clear(bench: BenchEnvironment, *tenants: Tenant) -> None:
    for tenant in tenants:
        bench.in_schema(tenant).execute("TRUNCATE background_jobs CASCADE")
    bench.admin.execute("TRUNCATE turno.tickets")


def _waits(client: Client, quiet: Tenant, jobs: int, seconds: float) -> list[float]:
    time.sleep(LENGTH * 2)
    waits = []
    for number in range(jobs):
        start = client.enqueue(quiet, seconds=seconds)
        waits.append((client.hear().at - start) / 1e6)
        # At a different moment within the others' jobs in each sample.
        time.sleep(seconds * (1 + number % SLOTS / SLOTS))
    return waits
