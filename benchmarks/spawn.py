"""From ExecQueue.offer to the handler's first line in a new process, against a Python that only connects."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from benchmarks.environment import ROOT, open_environment
from benchmarks.first_line import FirstLine
from benchmarks.report import Report
from turno.dispatch.dispatcher import ENQUEUE, submission
from turno.jobs.job import JobRef
from turno.jobs.new_job import NewJob
from turno.queues.exec.launcher import ExecQueue
from turno.queues.exec.slots import SlotFolder
from turno.tenancy.identity.session import call_as_api, service_session
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg

    from benchmarks.benchmark import Options
    from benchmarks.environment import BenchEnvironment
    from benchmarks.sampling import Contestant
    from turno.tenancy.identity.tenant import Tenant

FLOOR, LAST_LINE = "floor", "floor, without its exit"
CONNECT = "import psycopg, sys; psycopg.connect(sys.argv[1]); import time; print(time.monotonic_ns())"


def run(options: Options) -> Report:
    """Measure cold starts: nothing is warm but the files."""
    report = Report("spawn", "ms")
    with open_environment() as bench, service_session(bench.logins, bench.logins.web, application="bench-web") as web:
        contestants = {FLOOR: _floor(bench.url, to_exit=True), LAST_LINE: _floor(bench.url, to_exit=False)}
        contestants["spawn"] = _spawn(bench, web, bench.tenant("suc0001"))
        samples = options.sample(contestants, rounds=60, quick=15)
    report.add(samples)
    report.compare(samples, "spawn", FLOOR, at_most=1.6)
    report.compare(samples, "spawn", LAST_LINE)
    return report


def _floor(url: str, *, to_exit: bool) -> Contestant:
    def turn() -> list[float]:
        start = time.monotonic_ns()
        done = subprocess.run([sys.executable, "-c", CONNECT, url], check=True, capture_output=True, text=True)
        end = time.monotonic_ns() if to_exit else int(done.stdout)
        return [(end - start) / 1e6]

    return turn


def _spawn(bench: BenchEnvironment, web: psycopg.Connection[Any], tenant: Tenant) -> Contestant:
    queue = ExecQueue(
        root=ROOT,
        slots=SlotFolder(bench.folder / "slots", 1),
        log_file=bench.folder / "workers.log",
        environment=bench.environment(TURNO_HANDLERS="benchmarks.first_line:HANDLERS"),
    )

    def turn() -> list[float]:
        note = bench.folder / str(uuid4())
        job_id = call_as_api(web, tenant, ENQUEUE, submission(_job(note)))["job_id"]
        start = time.monotonic_ns()
        if not queue.offer(JobRef(tenant.slug, job_id)):
            raise RuntimeError("no slot was free")
        _wait_for_workers()
        if not wait_until(note.exists, within=60):
            raise RuntimeError((bench.folder / "workers.log").read_text())
        return [(int(note.read_text()) - start) / 1e6]

    return turn


def _job(note: Path) -> NewJob:
    return NewJob.of(FirstLine, {"note": str(note)}, backend="exec", max_attempts=1, user_id="ana")


def _wait_for_workers() -> None:
    # The launcher reaps each worker in a separate thread, which ends with the worker.
    for thread in threading.enumerate():
        if thread.name.startswith("reap-"):
            thread.join(30)
