"""A quiet tenant's wait behind ten thousand jobs of another, also when the other calls all of them urgent."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks.environment import open_ground
from benchmarks.report import Report
from benchmarks.resident import Client, resident
from benchmarks.sampling import quantile
from turno.jobs.job import Priority

if TYPE_CHECKING:
    from benchmarks.benchmark import Options
    from benchmarks.environment import Ground
    from turno.tenancy.identity.tenant import Tenant

SLOTS = 4
LENGTH = 0.2  # seconds a job takes
BACKLOG = 10_000
AT_MOST = 1.5
NOBODY = "nobody else"


def run(options: Options) -> Report:
    """Keep every child of a pool busy with one tenant's backlog and measure how long another's single jobs wait."""
    report = Report("fairness", "ms")
    jobs = 20 if options.quick else 150
    scenes = {NOBODY: None, "10,000 jobs": Priority.NORMAL, "10,000 urgent jobs": Priority.URGENT}
    with open_ground() as ground, Client(ground) as client:
        busy, quiet = ground.tenant("busy"), ground.tenant("quiet")
        samples = {}
        for name, priority in scenes.items():
            _clear(ground, busy, quiet)
            if priority is not None:
                client.backlog(busy, BACKLOG, seconds=LENGTH, priority=priority)
            with resident(ground, fewest=SLOTS, most=SLOTS):
                samples[name] = _waits(client, quiet, jobs)
    report.add(samples)
    lengths = {name: quantile(waits, 0.95) / 1000 / LENGTH for name, waits in samples.items()}
    report.facts |= {"children": SLOTS, "one job's length": LENGTH * 1000, "p95 wait in job lengths": lengths}
    report.facts["ratio"] = max(lengths.values())
    report.wanted["ratio"] = AT_MOST
    return report


def _clear(ground: Ground, *tenants: Tenant) -> None:
    for tenant in tenants:
        ground.in_schema(tenant).execute("TRUNCATE background_jobs CASCADE")
    ground.admin.execute("TRUNCATE turno.tickets")


def _waits(client: Client, quiet: Tenant, jobs: int) -> list[float]:
    time.sleep(LENGTH * 2)
    waits = []
    for number in range(jobs):
        start = client.enqueue(quiet, seconds=LENGTH)
        waits.append((client.hear().at - start) / 1e6)
        # At another moment of the others' jobs each time.
        time.sleep(LENGTH * (1 + number % SLOTS / SLOTS))
    return waits
