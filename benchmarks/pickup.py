"""From enqueue to the handler's first line on an idle system, with and without a kept session of the tenant."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import ExitStack, closing, contextmanager
from itertools import cycle
from typing import TYPE_CHECKING

import psycopg

from benchmarks.environment import ROOT, open_environment
from benchmarks.latency_probe import Bell
from benchmarks.peer import PeerMissing
from benchmarks.pgqueuer_peer import PgQueuer
from benchmarks.report import Report
from benchmarks.resident import Client, resident
from benchmarks.sampling import quantile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.benchmark import Options
    from benchmarks.environment import BenchEnvironment
    from benchmarks.sampling import Contestant

FLOOR, WARM, COLD, PEER = "floor", "session warm", "session cold", "pgqueuer"
KEPT = 2  # sessions a child keeps
TURN = 10
GOALS = {WARM: 2.6, f"{WARM} p99": 6.0}


def run(options: Options) -> Report:
    """Measure single jobs, each after the end of the previous job."""
    report = Report("pickup", "ms")
    with open_environment() as bench, Client(bench) as client, _listener(bench) as floor, ExitStack() as stack:
        report.facts[PEER] = "left out: ask for it with --peers"
        peer = _peer(bench, stack, report) if options.peers else {}
        often = bench.tenant("often")
        seldom = cycle([bench.tenant(f"seldom{n}") for n in range(KEPT + 2)])
        with resident(bench, fewest=1, most=1, TURNO_LIMITS=f"child_sessions={KEPT}"):

            def warm() -> list[float]:
                client.pick_up(often)  # after the cold ones its session is gone
                return [client.pick_up(often) for _ in range(TURN)]

            def cold() -> list[float]:
                return [client.pick_up(next(seldom)) for _ in range(TURN)]

            contestants: dict[str, Contestant] = {FLOOR: floor, WARM: warm, COLD: cold, **peer}
            samples = options.sample(contestants, rounds=100, quick=20)
    report.add(samples)
    for name in (WARM, COLD):
        report.compare(samples, name, FLOOR)
    if PEER in samples:
        report.compare(samples, WARM, PEER, at_most=1.0)
    report.facts["p50 and p99"] = {
        name: [round(quantile(took, share), 2) for share in (0.5, 0.99)] for name, took in samples.items()
    }
    report.wanted |= GOALS
    return report


def _peer(bench: BenchEnvironment, stack: ExitStack, report: Report) -> dict[str, Contestant]:
    try:
        peer = stack.enter_context(PgQueuer(bench.folder, bench.database(PEER), works=True))
    except PeerMissing as missing:
        report.facts[PEER] = str(missing)
        return {}
    report.facts[PEER] = peer.version
    return {PEER: lambda: peer.turn(TURN)}


@contextmanager
def _listener(bench: BenchEnvironment) -> Iterator[Contestant]:
    bench.admin.execute("CREATE TABLE public.floor (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY)")
    socket_path = bench.folder / "floor"
    with closing(Bell(socket_path)) as bell, psycopg.connect(bench.url, autocommit=True) as session:
        worker = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.listening_process", bench.url, socket_path], cwd=ROOT
        )

        def pick_up() -> float:
            start = time.monotonic_ns()
            session.execute("INSERT INTO public.floor DEFAULT VALUES")
            session.execute("NOTIFY floor")
            return (bell.hear().at - start) / 1e6

        try:
            bell.hear()
            yield lambda: [pick_up() for _ in range(TURN)]
        finally:
            worker.kill()
            worker.wait()
