"""A quiet tenant's wait behind ten thousand jobs of another, also when the other calls all of them urgent."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import psycopg

from app.store import tickets
from benchmarks.ground import open_ground
from benchmarks.report import Report
from benchmarks.sampling import quantile
from tenants.session import service_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.benchmark import Options
    from benchmarks.ground import Ground

SLOTS = 4
LENGTH = 0.2  # seconds a job takes
BACKLOG = 10_000
AT_MOST = 1.5
URGENT, NORMAL, LOW = 0, 1, 2


def run(options: Options) -> Report:
    """Keep every slot busy with one tenant's backlog and measure how long another's single jobs wait."""
    report = Report("fairness", "ms")
    jobs = 25 if options.quick else 150
    scenes = {"nobody else": None, "10,000 jobs": NORMAL, "10,000 urgent jobs": URGENT}
    with open_ground() as ground:
        ground.tenant("busy")
        ground.tenant("quiet")
        samples = {name: _waits(ground, priority, jobs) for name, priority in scenes.items()}
    report.add(samples)
    lengths = {name: quantile(waits, 0.95) / 1000 / LENGTH for name, waits in samples.items()}
    report.facts |= {"slots": SLOTS, "one job's length": LENGTH * 1000, "p95 wait in job lengths": lengths}
    report.facts["ratio"] = max(lengths.values())
    report.wanted["ratio"] = AT_MOST
    return report


def _waits(ground: Ground, priority: int | None, jobs: int) -> list[float]:
    ground.admin.execute("TRUNCATE turno.tickets, turno.workers")
    if priority is not None:
        _put(ground, "busy", priority, BACKLOG)
    with _slots(ground):
        time.sleep(LENGTH)
        waits = []
        for number in range(jobs):
            _put(ground, "quiet", LOW, 1)
            enqueued = time.perf_counter()
            while ground.admin.execute(
                "SELECT FROM turno.tickets WHERE state = 'ready' AND priority = %s", [LOW]
            ).rowcount:
                time.sleep(0.001)
            waits.append((time.perf_counter() - enqueued) * 1000)
            time.sleep(LENGTH * (1 + number % SLOTS / SLOTS))
        return waits


def _put(ground: Ground, tenant: str, priority: int, count: int) -> None:
    ground.admin.execute(
        "INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend)"
        " SELECT gen_random_uuid(), n.id, 'default', 'work', 1, %s, clock_timestamp(), 'ready', 'exec'"
        " FROM turno.tenants n, generate_series(1, %s) WHERE n.slug = %s",
        [priority, count, tenant],
    )


@contextmanager
def _slots(ground: Ground) -> Iterator[None]:
    """Claim, hold and end jobs in every slot."""
    done = threading.Event()

    def slot(number: int) -> None:
        done.wait(LENGTH * number / SLOTS)
        with (
            service_session(ground.logins, ground.logins.engine, application="bench-slot") as engine,
            closing(psycopg.connect(ground.url, autocommit=True)) as end,
        ):
            me = tickets.start_worker(engine, backend="exec", host="bench", pid=number)
            while not done.is_set():
                held = tickets.claim(engine, me, queues=["default"], types=[("work", 1)], backend="exec", slots=1)
                time.sleep(LENGTH if held else 0.01)
                end.execute("DELETE FROM turno.tickets WHERE job_id = ANY (%s)", [[one.job_id for one in held]])

    with ThreadPoolExecutor(SLOTS) as pool:
        running = [pool.submit(slot, number) for number in range(SLOTS)]
        try:
            yield
        finally:
            done.set()
        for one in running:
            one.result()
