"""Celery and Dramatiq on the same broker: jobs a second that do nothing, with two workers of two slots each."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psycopg

from benchmarks.peer import PeerMissing, install, version
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from benchmarks.broker_environment import BrokerEnvironment

WARM = 40  # jobs, until which every worker is up
PATIENCE = 300.0  # seconds


class Peer(NamedTuple):
    """A system, its packages, and whether it stores results in PostgreSQL."""

    name: str
    packages: tuple[str, ...]
    keeps_results: bool


PEERS = (
    Peer("celery", ("celery[sqlalchemy]", "psycopg2-binary"), keeps_results=True),
    Peer("dramatiq", ("dramatiq[rabbitmq]",), keeps_results=False),
)


def throughput(measured: BrokerEnvironment, jobs: int) -> dict[str, object]:
    """Return the release and the jobs per second of each peer, or the reason for a missing figure."""
    result: dict[str, object] = {}
    for peer in PEERS:
        try:
            python = install(*peer.packages)
            result[peer.name] = {
                "version": version(python, peer.name),
                "jobs/s, two workers": round(_Run(measured, peer, python).drain(jobs)),
                "results": "in PostgreSQL" if peer.keeps_results else "none kept",
            }
        except PeerMissing as missing:
            result[peer.name] = f"left out: {missing}"
    return result


class _Run:
    """One peer's processes."""

    def __init__(self, measured: BrokerEnvironment, peer: Peer, python: Path) -> None:
        self._peer = peer
        self._done = measured.bench.folder / f"{peer.name}.done"
        self._done.touch()
        self._database = measured.bench.database(peer.name)
        script = Path(__file__).with_name(f"{peer.name}_process.py")
        self._command = [str(python), "-I", str(script)]
        self._environment = {
            **os.environ,
            "PEER_BROKER": measured.node.url,
            "PEER_RESULTS": self._database.replace("postgresql://", "db+postgresql+psycopg2://", 1),
            "PEER_DONE": str(self._done),
        }

    def drain(self, jobs: int) -> float:
        """Return the jobs a second of workers that stand still until all jobs are in the broker."""
        workers = [self._start("work", name) for name in ("one", "two")]
        try:
            self._put(WARM)
            self._wait_for(WARM, workers)
            for worker in workers:
                os.killpg(worker.pid, signal.SIGSTOP)
            self._put(jobs)
            began = time.perf_counter()
            for worker in workers:
                os.killpg(worker.pid, signal.SIGCONT)
            self._wait_for(WARM + jobs, workers)
            return jobs / (time.perf_counter() - began)
        finally:
            for worker in workers:
                os.killpg(worker.pid, signal.SIGKILL)
                worker.wait()

    def _start(self, *about: str) -> subprocess.Popen[bytes]:
        with self._done.with_suffix(".log").open("ab") as log:
            return subprocess.Popen(
                [*self._command, *about],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _put(self, jobs: int) -> None:
        if status := self._start("put", str(jobs)).wait(PATIENCE):
            raise PeerMissing(f"nothing could be published: status {status}")

    def _wait_for(self, jobs: int, workers: list[subprocess.Popen[bytes]]) -> None:
        def ended() -> bool:
            return any(worker.poll() is not None for worker in workers)

        wait_until(lambda: self._finished() >= jobs or ended(), within=PATIENCE, every=0.01)
        if self._finished() < jobs:
            raise PeerMissing(f"{self._finished()} of {jobs} jobs were done")

    def _finished(self) -> int:
        """Count the finished jobs, with their results where the peer stores results."""
        ran = self._done.stat().st_size
        if not self._peer.keeps_results or not ran:
            return ran
        with psycopg.connect(self._database, autocommit=True) as session:
            try:
                (kept,) = session.execute("SELECT count(*) FROM celery_taskmeta").fetchone() or (0,)
            except psycopg.errors.UndefinedTable:
                return 0
        return min(ran, int(kept))
