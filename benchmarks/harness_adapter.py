"""Turno in the public harness postgresql-job-queue-benchmarking: `python -m benchmarks.harness_adapter`.

It speaks the protocol of the harness's CONTRIBUTING_ADAPTERS.md: settings come from the environment, each line of
standard output is a JSON record, and SIGTERM ends it. `harness_adapter.json` is its adapter.json, which names the
tickets only: the name of a tenant's schema differs in each installation, so the descriptor adds the table of jobs.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

import psycopg

import turno
from benchmarks.environment import COMPANY, KEY, ROOT, TABLES
from benchmarks.latency_probe import HANDLERS, PROBE, Bell, Ring
from benchmarks.sampling import quantile
from turno.jobs.handler import Registry
from turno.store.engine.announcements import of
from turno.store.engine.engine import Engine
from turno.tenancy.identity.logins import Logins
from turno.tenancy.provisioning.install import install
from turno.tenancy.provisioning.provision import add_company, add_tenant

MANIFEST = json.loads(Path(__file__).with_suffix(".json").read_text())
WORKER = ROOT / "cli" / "worker_pool.py"
TENANT = "bench"
WINDOW = 30.0  # seconds of the latencies


class Adapter:
    """Produces jobs at a rate or up to a depth, and emits samples at each multiple of the cadence."""

    def __init__(self, admin: psycopg.Connection[Any], folder: str) -> None:
        self._admin, self._every, self._enqueued = admin, number("SAMPLE_EVERY_S", 5), 0
        self._latencies: deque[tuple[float, float]] = deque(maxlen=32_768)
        self._bell = Bell(Path(folder) / "bell")
        Thread(target=self._listen, daemon=True).start()

    def run(self, stop: Event) -> None:
        """Produce and sample until `stop` is set, then emit the last samples."""
        credit, last, counted = 0.0, time.monotonic(), (0, 0, time.time())
        while not stop.wait(number("PRODUCER_BATCH_MS", 10) / 1000):
            passed, last = time.monotonic() - last, time.monotonic()
            wanted, credit = self._wanted(credit, passed)
            if wanted:
                self._enqueue(wanted)
            if time.time() // self._every > counted[2] // self._every:
                counted = self._sample(counted)
        self._sample(counted)

    def _wanted(self, credit: float, passed: float) -> tuple[int, float]:
        """Return how many jobs to enqueue now and the remaining credit: the rate times the time that really passed."""
        most = int(number("PRODUCER_BATCH_MAX", 128))
        if os.environ.get("PRODUCER_MODE") == "depth-target":
            return max(0, min(most, int(number("TARGET_DEPTH", 1_000)) - self._waiting()[0])), 0.0
        rate = number("PRODUCER_RATE", 800)
        with suppress(KeyError, OSError, ValueError):
            rate = float(Path(os.environ["PRODUCER_RATE_CONTROL_FILE"]).read_text())
        credit += rate * passed
        wanted = min(most, int(credit))
        return wanted, credit - wanted

    def _enqueue(self, count: int) -> None:
        payload: dict[str, Any] = {"bell": self._bell.path, "word": str(time.monotonic_ns())}
        payload |= {"seconds": number("JOB_WORK_MS", 1) / 1000, "padding": "x" * int(number("JOB_PAYLOAD_BYTES", 256))}
        turno.enqueue_many(self._admin, TENANT, Ring, [payload] * count)
        self._enqueued += count

    def _waiting(self) -> tuple[int, int]:
        """Return the numbers of ready and of open jobs; an ended job has no ticket."""
        query = "SELECT count(*) FILTER (WHERE state = 'ready'), count(*) FROM turno.tickets"
        ready, open_jobs = self._admin.execute(query).fetchone() or (0, 0)
        return int(ready), int(open_jobs)

    def _sample(self, before: tuple[int, int, float]) -> tuple[int, int, float]:
        """Emit the samples, and return the numbers of enqueued and of completed jobs at this time."""
        now, (depth, open_jobs) = time.time(), self._waiting()
        completed, passed = self._enqueued - open_jobs, max(now - before[2], 1e-3)
        since = time.monotonic() - WINDOW
        took = [latency for at, latency in list(self._latencies) if at >= since] or [0.0]
        samples = [(f"claim_p{share}_ms", quantile(took, share / 100), WINDOW) for share in (50, 95, 99)]
        samples.append(("enqueue_rate", (self._enqueued - before[0]) / passed, self._every))
        samples.append(("completion_rate", (completed - before[1]) / passed, self._every))
        samples.append(("queue_depth", depth, 0.0))
        about = {"system": MANIFEST["system"], "kind": "adapter", "subject_kind": "adapter", "subject": ""}
        for metric, value, window in samples:
            emit("t", {**about, "metric": metric, "value": value, "window_s": window})
        return self._enqueued, completed, now

    def _listen(self) -> None:
        while True:
            with suppress(TimeoutError):
                rung = self._bell.hear()
                self._latencies.append((time.monotonic(), (rung.at - int(rung.word)) / 1e6))


def main() -> None:
    """Install Turno if it is absent, start a worker, and produce until SIGTERM."""
    stop = Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    url, children = os.environ["DATABASE_URL"], os.environ.get("WORKER_COUNT", "2")
    logins = Logins(url, KEY.encode())
    with psycopg.connect(url, autocommit=True) as admin, TemporaryDirectory(prefix="turno-harness-") as folder:
        install(admin, logins)
        add_company(admin, logins, COMPANY, COMPANY)
        tenant = add_tenant(admin, logins, TENANT, COMPANY, migrations=TABLES)
        Engine.on(admin).announce(of(Registry.of(HANDLERS)), 1_000_000)
        tables = [*MANIFEST["event_tables"], f"{tenant.schema}.background_jobs"]
        about = {**MANIFEST, "event_tables": tables, "version": version("turno-jobs"), "schema_version": "current"}
        emit("started_at", {"kind": "descriptor", **about})
        settings = {"TURNO_MASTER_KEY": KEY, "TURNO_HANDLERS": PROBE}
        settings |= {"QUEUE_BACKEND": "pool", "TURNO_MIN_CHILDREN": children, "TURNO_MAX_CHILDREN": children}
        settings |= {"TURNO_DOTENV": "read", "TURNO_LOG_LEVEL": "ERROR", "PYTHONPATH": str(ROOT)}
        worker = subprocess.Popen([sys.executable, WORKER], cwd=ROOT, env=os.environ | settings, stdout=sys.stderr)
        try:
            Adapter(admin, folder).run(stop)
        finally:
            worker.terminate()
            with suppress(subprocess.TimeoutExpired):
                worker.wait(3)
            worker.kill()


def number(name: str, default: float) -> float:
    """Return a setting of the harness."""
    return float(os.environ.get(name, default))


def emit(time_name: str, record: dict[str, Any]) -> None:
    """Print a record on a line, with the present in ISO 8601."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    print(json.dumps({time_name: now, **record}), flush=True)


if __name__ == "__main__":
    main()
