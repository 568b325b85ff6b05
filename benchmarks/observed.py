"""The cost of observation for jobs: their log, a scrape each second, the operators' live page, and spans."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

from flask import Flask

from benchmarks.environment import open_environment
from benchmarks.log_records import Turns, session_of_log
from benchmarks.noop_handlers import Tally
from benchmarks.report import Report
from benchmarks.throughput import Drain, Pool
from benchmarks.web_process import TURNO, serving_process
from turno import Principal, Turno

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from benchmarks.benchmark import Options
    from benchmarks.sampling import Contestant

TENANTS = 20
JOBS = 4_000
AT_MOST = 1.03
TOKEN = "the benchmarks' own token of the metrics"  # noqa: S105 - of a server that is gone with the benchmark
ANSWERS, SMOKE_ANSWERS = 50, 2
AGAIN = "unwatched, again"  # how far two turns of the same differ on this machine
EVERY = {"/metrics": 1.0, "/admin": 5.0}  # seconds


class Unwatched(Tally):
    """A pool that logs only warnings runs these jobs."""

    type = "unwatched"


class Watched(Tally):
    """Run by a pool that logs each job, in JSON."""

    type = "watched"


class Exported(Tally):
    """The same, and it exports spans."""

    type = "exported"


UNWATCHED, WATCHED, EXPORTED = (Unwatched,), (Watched,), (Exported,)


def run(options: Options) -> Report:
    """Drain jobs by pools of each kind in turns; the processor time is of the server, the pools and the web."""
    report = Report("observed", "ms a job")
    jobs = options.of(JOBS, quick=JOBS // 6, smoke=20)
    processor: dict[str, list[float]] = {}
    with open_environment() as bench, ExitStack() as stack, collector() as endpoint:
        count = options.of(TENANTS, quick=TENANTS, smoke=2)
        tenants = [bench.tenant(f"suc{number:04d}") for number in range(count)]
        log = stack.enter_context(session_of_log(bench))
        web = stack.enter_context(
            serving_process(bench, TURNO, TURNO_METRICS_TOKEN=TOKEN, TURNO_WEB_APP="benchmarks.observed:operators_web")
        )
        loud = {"TURNO_LOG_LEVEL": "INFO"}
        exporting = loud | {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
        contestants: dict[str, Contestant] = {}
        pids = [bench.cluster.pid, web.pid]
        watcher = Watcher(web.port)
        answers = options.of(ANSWERS, quick=ANSWERS, smoke=SMOKE_ANSWERS)
        asking = {path: _each(partial(watcher.ask, path), pids, answers) for path in EVERY}
        for handler, extra in ((Unwatched, {}), (Watched, loud), (Exported, exporting)):
            pool = Pool(bench, f"benchmarks.observed:{handler.type.upper()}", **extra)
            stack.enter_context(pool)
            pids.append(pool.pid)
            drain = Drain(bench, tenants, handler).turn(jobs, Turns(log))
            watching = nullcontext if handler is Unwatched else watcher.watching
            used = processor.setdefault(handler.type, [])
            contestants[handler.type] = _turn(drain, watching, lambda: _processor_ms(pids) / jobs, used)
            if handler is Unwatched:
                used = processor.setdefault(AGAIN, [])
                contestants[AGAIN] = _turn(drain, watching, lambda: _processor_ms(pids) / jobs, used)
        samples = options.sample(contestants, rounds=12, quick=3)
    report.add(samples)
    for name in (AGAIN, Watched.type, Exported.type):
        report.compare(samples, name, Unwatched.type, at_most=AT_MOST if name == Watched.type else None)
    # Without the round that warms up, as above.
    of_processor = {f"{name}, processor": values[-len(samples[name]) :] for name, values in processor.items()}
    report.add(of_processor)
    for name in (AGAIN, Watched.type, Exported.type):
        wanted = AT_MOST if name == Watched.type else None
        report.compare(of_processor, f"{name}, processor", f"{Unwatched.type}, processor", at_most=wanted)
    report.facts |= {"jobs a turn": jobs, "tenants": count, "processor ms of": asking}
    # Costs that busy turns cannot distinguish: the cost of the answers on this machine.
    share = sum(asking[path] / every for path, every in EVERY.items()) / 1000 / (os.cpu_count() or 1)
    report.facts["share of the machine"] = share
    report.wanted["share of the machine"] = AT_MOST - 1
    return report


def operators_web() -> Flask:
    """Return a web application in which every user is an operator."""
    app = Flask("observed")
    Turno(app, principal=lambda _: Principal(user="eva", tenants=(), role="operator"))
    return app


def _turn(
    drain: Contestant, watching: Callable[[], AbstractContextManager[None]], now: Callable[[], float], used: list[float]
) -> Contestant:
    def turn() -> list[float]:
        before = now()
        with watching():
            took = list(drain())
        used.append(now() - before)
        return took

    return turn


def _each(ask: Callable[[], None], pids: list[int], answers: int) -> float:
    """Return the milliseconds of processor time that an answer takes on average, after a fifth as many to warm up."""
    for _ in range(answers // 5):
        ask()
    before = _processor_ms(pids)
    for _ in range(answers):
        ask()
    return (_processor_ms(pids) - before) / answers


class Watcher:
    """One monitoring system that scrapes each second, and one browser with the live page.

    The next turn sends the requests that were due at the end of a turn: so turns of any length are watched alike.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._due = dict.fromkeys(EVERY, 0.0)  # in seconds of all turns so far
        self._passed = 0.0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Ask while this block runs."""
        over, began = Event(), time.monotonic() - self._passed
        threads = [Thread(target=self._ask, args=(path, began, over)) for path in EVERY]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join()
            self._passed = time.monotonic() - began

    def ask(self, path: str) -> None:
        """Ask once; raises RuntimeError for an error status."""
        web = HTTPConnection("127.0.0.1", self._port, timeout=30)
        web.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
        answer = web.getresponse()
        answer.read()
        web.close()
        if answer.status != HTTPStatus.OK:
            raise RuntimeError(f"{path}: {answer.status}")

    def _ask(self, path: str, began: float, over: Event) -> None:
        while not over.wait(max(0.0, began + self._due[path] - time.monotonic())):
            self.ask(path)
            self._due[path] = max(self._due[path] + EVERY[path], time.monotonic() - began)


def _processor_ms(roots: list[int]) -> float:
    """Return the processor time of these processes and their descendants, including ended processes."""
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(path.parent.name)
        parents[pid], used[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    known = set(roots)
    while more := {pid for pid, parent in parents.items() if parent in known} - known:
        known |= more
    return 10.0 * sum(used.get(pid, 0) for pid in known)


@contextmanager
def collector() -> Iterator[str]:
    """Run a server that takes spans, and give its address."""

    class Taking(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Taking) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
