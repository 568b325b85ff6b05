"""A resident worker, and the client that submits jobs and receives the signal of their first line."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from benchmarks.environment import ROOT
from benchmarks.latency_probe import PROBE, Bell, Ring
from turno.dispatch.dispatcher import ENQUEUE, submission
from turno.jobs.job import JobRef, Priority
from turno.jobs.new_job import NewJob
from turno.tenancy.identity.session import call_as_api, service_session
from turno.testing.wait import wait_until
from turno.wiring.shared import queue_named

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from benchmarks.environment import BenchEnvironment
    from benchmarks.latency_probe import Rung
    from turno.tenancy.identity.tenant import Tenant


class Client:
    """Enqueues as the web does, hint included, and listens for the first lines."""

    def __init__(self, bench: BenchEnvironment) -> None:
        self._bench = bench
        self.bell = Bell(bench.folder / "bell")
        self._queue = queue_named("pool", bench.settings())
        self._web = service_session(bench.logins, bench.logins.web, application="bench-web")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._queue.close()
        self._web.close()
        self.bell.close()

    def enqueue(self, tenant: Tenant, word: str = "x", *, seconds: float = 0.0) -> int:
        """Enqueue a job that rings; returns the nanoseconds of CLOCK_MONOTONIC before that began."""
        start = time.monotonic_ns()
        new = _job({"bell": self.bell.path, "word": word, "seconds": seconds})
        job_id = call_as_api(self._web, tenant, ENQUEUE, submission(new))["job_id"]
        self._queue.offer(JobRef(tenant.slug, job_id))
        return start

    def pick_up(self, tenant: Tenant) -> float:
        """Enqueue one job and return the milliseconds until its handler's first line; then wait for its end."""
        start = self.enqueue(tenant)
        took = (self.bell.hear().at - start) / 1e6
        self.wait_until_idle()
        return took

    def wait_until_idle(self, within: float = 60.0) -> None:
        """Return when no ticket is left."""
        if not wait_until(lambda: self._left() == 0, within=within, every=0.002):
            raise RuntimeError("the pool does not finish its work")

    def wait_until_left(self, count: int, within: float) -> None:
        """Wait until at most `n` tickets remain."""
        if not wait_until(lambda: self._left() <= count, within=within, every=0.2):
            raise RuntimeError("the pool does not get on with its work")

    def backlog(
        self,
        tenant: Tenant,
        count: int,
        *,
        handler: type[Ring] = Ring,
        seconds: float = 0.0,
        priority: Priority = Priority.NORMAL,
    ) -> None:
        """Enqueue `n` jobs without a signal in one transaction."""
        self._bench.enqueue_many(_job({"seconds": seconds}, handler=handler, priority=priority), tenant, count)

    def hear(self, within: float = 60.0) -> Rung:
        """Return the next ring."""
        return self.bell.hear(within)

    def _left(self) -> int:
        row = self._bench.admin.execute("SELECT count(*) FROM turno.tickets").fetchone()
        return int(row[0]) if row else 0


def _job(payload: dict[str, Any], *, handler: type[Ring] = Ring, priority: Priority = Priority.NORMAL) -> NewJob:
    return NewJob.of(handler, payload, backend="pool", user_id="ana", priority=priority)


@contextmanager
def resident(
    bench: BenchEnvironment, *, fewest: int, most: int, handlers: str = PROBE, **settings: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a pool of the handlers at this place from when it is ready, with its fewest children, until the end."""
    sign = bench.folder / f"alive-{time.monotonic_ns()}"
    environment = bench.environment(
        QUEUE_BACKEND="pool",
        TURNO_HANDLERS=handlers,
        TURNO_MIN_CHILDREN=str(fewest),
        TURNO_MAX_CHILDREN=str(most),
        TURNO_ALIVE_FILE=str(sign),
        TURNO_LOG_LEVEL="ERROR",
        **settings,
    )
    pool = subprocess.Popen([sys.executable, str(ROOT / "cli" / "worker_pool.py")], cwd=ROOT, env=environment)
    try:
        if not wait_until(sign.exists, within=120):
            raise RuntimeError("the pool did not become ready")
        yield pool
    finally:
        pool.terminate()
        pool.wait(60)


def children(pool: subprocess.Popen[bytes]) -> list[int]:
    """Return the pids of a pool's children that run jobs: each leads its process group."""
    result = Path(f"/proc/{pool.pid}/task/{pool.pid}/children").read_text().split()
    return [int(pid) for pid in result if _group(pid) == int(pid)]


def _group(pid: str) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[2])
    except FileNotFoundError:
        return None


def pss_megabytes(pid: int) -> float:
    """Return the proportional set size of a process."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def anonymous_megabytes(pid: int) -> float:
    """Return the anonymous memory of a process, including shared pages."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:")) / 1024
