"""1,000 live streams of 100 tenants, 50 changes a second: from the commit to the event; one change to all of them."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from benchmarks.environment import ROOT, open_environment
from benchmarks.http_client import Client
from benchmarks.report import Report
from benchmarks.sampling import quantile
from benchmarks.stream_readers import Readers
from benchmarks.web_process import TURNO, serving_process
from handlers.batch_invoicing import BatchInvoicing
from turno.commands.token import development_token

if TYPE_CHECKING:
    from benchmarks.benchmark import Options
    from benchmarks.environment import BenchEnvironment
    from benchmarks.web_process import WebProcess

VIEWERS = 10  # of each tenant's job
A_SECOND = 50
WARM_UP = 64  # streams
TO_EACH, TO_ALL, HEALTH = "change to its viewers", "change to all", "/healthz meanwhile"
WANTED = {"p50_ms": 20.0, "p99_ms": 100.0, "missed": 0, f"{HEALTH} p99": 10.0}

Job = dict[str, Any]
Changed = list[tuple[str, int, float]]


def run(options: Options) -> Report:
    """Measure the time from the request of a commit until the client has read the event."""
    report = Report("stream", "ms")
    tenants = options.of(100, quick=20, smoke=2)
    with open_environment() as bench, ExitStack() as stack:
        jobs = [_job(bench, number) for number in range(tenants)]
        streams = tenants * VIEWERS
        web = stack.enter_context(
            serving_process(bench, TURNO, TURNO_LIMITS="streams_per_tenant=100000,streams_per_user=100000")
        )
        each = _to_each(bench, web, jobs, report, seconds=options.of(30.0, quick=8.0, smoke=1.0))
        everybody = _to_all(bench, web, jobs[0], streams, changes=options.of(60, quick=20, smoke=4))
    report.add({TO_EACH: each.latencies, TO_ALL: everybody.latencies, HEALTH: each.health})
    report.facts |= {
        "p50_ms": statistics.median(each.latencies),
        "p99_ms": quantile(each.latencies, 0.99),
        "missed": each.missed + everybody.missed,
        "streams": streams,
    }
    report.wanted |= WANTED
    return report


class Outcome:
    """How long each change took to each of its viewers, which viewers missed a last state, and /healthz meanwhile."""

    def __init__(self, readers: Readers, changed: Changed, health: list[float]) -> None:
        self.health = health
        self.latencies: list[float] = []
        self.missed = 0
        last = {job: revision for job, revision, _ in changed}
        for reader in readers.readers:
            for job in {job for job, _, _ in reader.arrived}:
                arrivals = [(revision, at) for name, revision, at in reader.arrived if name == job]
                self.missed += max(revision for revision, _ in arrivals) < last.get(job, 0)
                for name, revision, requested in changed:
                    # A state that was overtaken by a later one before it was sent arrives with that.
                    at = next((at for seen, at in arrivals if seen >= revision), None)
                    if name == job and at is not None:
                        self.latencies.append((at - requested) * 1000)
            self.missed += not reader.arrived


def _to_each(bench: BenchEnvironment, web: WebProcess, jobs: list[Job], report: Report, *, seconds: float) -> Outcome:
    openings = [
        (path, _headers(bench, job)) for job in jobs for path in _paths(job) for _ in range(VIEWERS // len(_paths(job)))
    ]
    # The first requests open the pool's sessions and start its threads, which streams do not cost.
    first = Readers(web.port, openings[:WARM_UP])
    first.wait_until_ready()
    first.close()
    before = _memory(web)
    began = time.monotonic()
    readers = Readers(web.port, openings)
    readers.wait_until_ready()
    opened = time.monotonic() - began
    report.facts |= {
        "all open after s": opened,
        "KB a stream": (_memory(web) - before) / len(openings),
        "database sessions": _sessions(bench),
        "threads": len(list(Path(f"/proc/{web.worker}/task").iterdir())),
    }
    health = Health(web.port)
    changed = _write(bench, jobs, changes=round(A_SECOND * seconds), a_second=A_SECOND, end=True)
    readers.wait_until_over(5)
    latencies = health.stop()
    readers.close()
    return Outcome(readers, changed, latencies)


def _to_all(bench: BenchEnvironment, web: WebProcess, like: Job, streams: int, *, changes: int) -> Outcome:
    job = _enqueue(bench, like)
    readers = Readers(web.port, [(f"/api/jobs/{job['id']}/stream", _headers(bench, job))] * streams)
    readers.wait_until_ready()
    changed = _write(bench, [job], changes=changes, a_second=4, end=True)
    readers.wait_until_over(5)
    readers.close()
    return Outcome(readers, changed, [])


def _paths(job: Job) -> tuple[str, str]:
    return f"/api/jobs/{job['id']}/stream", "/api/stream"


def _headers(bench: BenchEnvironment, job: Job) -> dict[str, str]:
    token = development_token(bench.settings(), user="ana", tenants=[job["slug"]])
    return {"Authorization": f"Bearer {token}", "X-Schema": job["slug"]}


def _job(bench: BenchEnvironment, number: int) -> Job:
    tenant = bench.tenant(f"suc{number:04d}")
    return _enqueue(bench, {"slug": tenant.slug, "schema": tenant.schema, "tenant": tenant.id, "of": tenant})


def _enqueue(bench: BenchEnvironment, like: Job) -> Job:
    # For a backend without a worker: the web's maintenance would have a job of exec run after 20 s.
    payload = {"order_ids": [1], "point_of_sale": 1}
    return like | {"id": str(bench.enqueue(BatchInvoicing, like["of"], payload, backend="pool"))}


def _write(bench: BenchEnvironment, jobs: list[Job], **orders: Any) -> Changed:
    named = [{key: job[key] for key in ("id", "schema", "tenant")} for job in jobs]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.stream_writer"],
        input=json.dumps({"url": bench.url, "jobs": named} | orders),
        env=bench.environment(),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return [(job, revision, requested) for job, revision, requested in json.loads(done.stdout)]


class Health:
    """Requests /healthz twenty times a second until `stop`."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._took: list[float] = []
        self._done = Event()
        self._thread = Thread(target=self._ask)
        self._thread.start()

    def stop(self) -> list[float]:
        """Return the milliseconds of each answer."""
        self._done.set()
        self._thread.join()
        return self._took

    def _ask(self) -> None:
        with Client(self._port, "/healthz", method="GET", expected=200) as client:
            while not self._done.wait(0.05):
                self._took.append(client.post({}, b""))


def _memory(web: WebProcess) -> float:
    """Return the web process's own share of memory in KB."""
    time.sleep(0.5)
    for line in Path(f"/proc/{web.worker}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return float(line.split()[1])
    raise LookupError("Pss")


def _sessions(bench: BenchEnvironment) -> dict[str, int]:
    rows = bench.admin.execute(
        "SELECT application_name, count(*) FROM pg_stat_activity WHERE application_name LIKE 'turno-%'"
        " GROUP BY 1 ORDER BY 1"
    )
    return dict(rows.fetchall())
