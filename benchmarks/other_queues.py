"""The floor and the peers of jobs that do nothing: queues with processes and a database of their own."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString, Self

import psycopg
from psycopg import sql

from benchmarks.environment import ROOT
from benchmarks.peer import install, version
from benchmarks.pgqueuer_peer import PACKAGE
from benchmarks.skip_locked_process import TABLE

if TYPE_CHECKING:
    from types import TracebackType

    from benchmarks.environment import BenchEnvironment
    from benchmarks.log_records import Turns
    from benchmarks.sampling import Contestant

PROCESSES = 2
PATIENCE = 120.0  # time limit of a turn, in seconds


@dataclass(frozen=True, slots=True)
class Queue:
    """Another queue in a separate database: how a worker of it is started, filled and read.

    `put` enqueues the numbers from 1 to its parameter, `spans` has a row with two moments for each completed job.
    """

    worker: list[str]
    url: str
    empty: LiteralString
    put: LiteralString
    spans: LiteralString

    def version(self, package: str) -> str:
        """Return which release of a package its worker uses."""
        return version(Path(self.worker[0]), package)


def skip_locked(bench: BenchEnvironment) -> Queue:
    """Return the hand-written loop."""
    url = bench.database("floor")
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(TABLE)
    return Queue(
        worker=[sys.executable, "-m", "benchmarks.skip_locked_process", url],
        url=url,
        empty="TRUNCATE floor_jobs",
        put="INSERT INTO floor_jobs (number) SELECT i FROM generate_series(1, %s) AS i",
        spans="SELECT started_at, finished_at FROM floor_jobs WHERE state = 2",
    )


def procrastinate(bench: BenchEnvironment) -> Queue:
    """Return Procrastinate with its schema applied; raises PeerMissing."""
    url = bench.database("procrastinate")
    return Queue(
        worker=_installed(url, "procrastinate_process", "procrastinate", "psycopg[binary,pool]"),
        url=url,
        empty="TRUNCATE procrastinate_jobs CASCADE",
        put="INSERT INTO procrastinate_jobs (queue_name, task_name, args)"
        " SELECT 'default', 'tally', jsonb_build_object('number', i) FROM generate_series(1, %s) AS i",
        spans="SELECT b.at, e.at FROM procrastinate_events b JOIN procrastinate_events e USING (job_id)"
        " WHERE b.type = 'started' AND e.type = 'succeeded'",
    )


def pgqueuer(bench: BenchEnvironment) -> Queue:
    """Return PgQueuer with its tables installed, as they are by default; raises PeerMissing."""
    url = bench.database("pgqueuer")
    return Queue(
        worker=_installed(url, "pgqueuer_drain_process", PACKAGE),
        url=url,
        empty="TRUNCATE pgqueuer, pgqueuer_log",
        put="INSERT INTO pgqueuer (priority, entrypoint, payload, status)"
        " SELECT 0, 'tally', jsonb_build_object('number', i)::text::bytea, 'queued' FROM generate_series(1, %s) AS i",
        spans="SELECT b.created, e.created FROM pgqueuer_log b JOIN pgqueuer_log e USING (job_id)"
        " WHERE b.status = 'picked' AND e.status = 'successful'",
    )


def _installed(url: str, script: str, *packages: str) -> list[str]:
    """Install a peer and its schema, and return how a worker of it is started."""
    python = install(*packages)
    worker = [str(python), "-I", str(ROOT / "benchmarks" / f"{script}.py"), url]
    subprocess.run([*worker, "install"], check=True)
    return worker


class Workers:
    """Two processes of another queue, each waiting for its turn."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def __enter__(self) -> Self:
        self._admin = psycopg.connect(self._queue.url, autocommit=True)
        self._processes = [
            subprocess.Popen(self._queue.worker, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(PROCESSES)
        ]
        self._hear("ready")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.communicate(timeout=PATIENCE)
        self._admin.close()

    def turn(self, jobs: int, turns: Turns) -> Contestant:
        """Return a contestant that drains `n` jobs, and counts the records of the log."""

        def drain() -> list[float]:
            self._admin.execute(self._queue.empty)
            self._admin.execute(self._queue.put, [jobs])
            self._admin.execute("VACUUM ANALYZE")
            turns.begin()
            for process in self._processes:
                print("go", file=process.stdin, flush=True)
            self._hear("empty")
            took, p99 = span_of(self._admin, sql.SQL(self._queue.spans), jobs)
            turns.end(jobs, p99)
            return [took]

        return drain

    def _hear(self, word: str) -> None:
        for process in self._processes:
            assert process.stdout is not None  # noqa: S101 - opened with a pipe
            if process.stdout.readline().strip() != word:
                raise NotDrained(f"{self._queue.worker} did not say {word}")


class NotDrained(Exception):
    """The measured work did not happen."""


def span_of(admin: psycopg.Connection[Any], spans: sql.Composable, jobs: int) -> tuple[float, float]:
    """Return the milliseconds a job from the first start to the last end, by the database's clock.

    The second number is the 99th percentile of the milliseconds from a job's start to its end.
    """
    query = sql.SQL(
        "SELECT count(*), extract(epoch FROM max(b) - min(a)),"
        " extract(epoch FROM percentile_disc(0.99) WITHIN GROUP (ORDER BY b - a)) FROM ({}) AS spans (a, b)"
    ).format(spans)
    row = admin.execute(query).fetchone()
    if row is None or row[0] != jobs:
        raise NotDrained(f"{jobs} jobs were to be completed once: {row}")
    return 1000 * float(row[1]) / jobs, 1000 * float(row[2])
