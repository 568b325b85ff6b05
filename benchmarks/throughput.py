"""Jobs that do nothing, drained by two processes, in batches and singly, against a hand-written SKIP LOCKED loop."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, LiteralString, Self

import psycopg
from psycopg import sql

from benchmarks.environment import ROOT, open_environment
from benchmarks.noop_handlers import Tally, TallyAlone
from benchmarks.peer import PeerMissing, install, version
from benchmarks.report import Report
from benchmarks.sampling import interleaved
from benchmarks.skip_locked_process import TABLE
from turno.servers.wait import wait_until

if TYPE_CHECKING:
    from datetime import datetime
    from types import TracebackType

    from benchmarks.benchmark import Options
    from benchmarks.environment import BenchEnvironment
    from benchmarks.sampling import Contestant
    from turno.tenancy.identity.tenant import Tenant

PROCESSES = 2
TENANTS = (1, 20, 100)
FLOOR, PEER = "floor", "procrastinate"
# Of the floor's time.
TOGETHER_AT_MOST, ALONE_AT_MOST = 1 / 2, 1 / 0.6
PEER_AT_MOST = 1 / 5
PATIENCE = 120.0  # seconds that one turn may take


def run(options: Options) -> Report:
    """Sample milliseconds a job, in turns; every job's end is durable, and each was completed exactly once."""
    report = Report("throughput", "ms a job")
    jobs = 500 if options.quick else 3_000
    some = TENANTS[:2] if options.quick else TENANTS
    with open_environment() as bench, ExitStack() as stack:
        contestants: dict[str, Contestant] = {FLOOR: stack.enter_context(Workers(skip_locked(bench))).turn(jobs)}
        contestants |= _peer(bench, stack, report, jobs) if options.peers else {}
        tenants = [bench.tenant(f"suc{number:04d}") for number in range(max(some))]
        stack.enter_context(Pool(bench))
        for handler, times in ((Tally, 5), (TallyAlone, 1)):
            for count in some:
                drain = Drain(bench, tenants[:count], handler).turn(times * jobs)
                contestants[f"{handler.type}, {count} tenants"] = drain
        samples = interleaved(contestants, rounds=3 if options.quick else 15, seconds=options.seconds)
    report.add(samples)
    for name in samples:
        if name not in (FLOOR, PEER):
            alone = name.startswith(TallyAlone.type)
            report.compare(samples, name, FLOOR, at_most=ALONE_AT_MOST if alone else TOGETHER_AT_MOST)
            if PEER in samples:
                report.compare(samples, name, PEER, at_most=None if alone else PEER_AT_MOST)
    report.facts["jobs/s"] = {name: round(1000 / figure.median) for name, figure in report.figures.items()}
    report.facts["ratio"] = {name: round(1 / ratio.median, 3) for name, ratio in report.ratios.items()}
    report.facts |= {"processes": PROCESSES}
    return report


def _peer(bench: BenchEnvironment, stack: ExitStack, report: Report, jobs: int) -> dict[str, Contestant]:
    try:
        workers = stack.enter_context(Workers(procrastinate(bench)))
    except PeerMissing as missing:
        report.facts[PEER] = str(missing)
        return {}
    report.facts[PEER] = version(bench.folder / PEER / "bin" / "python", PEER)
    return {PEER: workers.turn(jobs)}


@dataclass(frozen=True, slots=True)
class Queue:
    """Another queue in a database of its own: how a worker of it is started, filled and read.

    `put` enqueues the numbers from 1 to its parameter, `spans` has a row with two moments for each completed job.
    """

    worker: list[str]
    url: str
    empty: LiteralString
    put: LiteralString
    spans: LiteralString


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
    python = install(bench.folder / PEER, "procrastinate", "psycopg[binary,pool]")
    url = bench.database(PEER)
    worker = [str(python), "-I", str(ROOT / "benchmarks" / "procrastinate_process.py"), url]
    subprocess.run([*worker, "install"], check=True)
    return Queue(
        worker=worker,
        url=url,
        empty="TRUNCATE procrastinate_jobs CASCADE",
        put="INSERT INTO procrastinate_jobs (queue_name, task_name, args)"
        " SELECT 'default', 'tally', jsonb_build_object('number', i) FROM generate_series(1, %s) AS i",
        spans="SELECT b.at, e.at FROM procrastinate_events b JOIN procrastinate_events e USING (job_id)"
        " WHERE b.type = 'started' AND e.type = 'succeeded'",
    )


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

    def turn(self, jobs: int) -> Contestant:
        """Return a contestant that drains so many jobs."""

        def drain() -> list[float]:
            self._admin.execute(self._queue.empty)
            self._admin.execute(self._queue.put, [jobs])
            self._admin.execute("VACUUM ANALYZE")
            for process in self._processes:
                print("go", file=process.stdin, flush=True)
            self._hear("empty")
            return [_span(self._admin, sql.SQL(self._queue.spans), jobs)]

        return drain

    def _hear(self, word: str) -> None:
        for process in self._processes:
            assert process.stdout is not None  # noqa: S101 - opened with a pipe
            if process.stdout.readline().strip() != word:
                raise NotDrained(f"{self._queue.worker} did not say {word}")


class Pool:
    """The real resident worker, with as many children as there are processes."""

    def __init__(self, bench: BenchEnvironment) -> None:
        self._bench = bench

    def __enter__(self) -> Self:
        environment = self._bench.environment(
            QUEUE_BACKEND="pool",
            POOL_MIN_CHILDREN=str(PROCESSES),
            POOL_MAX_CHILDREN=str(PROCESSES),
            POOL_SESSIONS_PER_CHILD="32",
            HANDLERS="benchmarks.noop_handlers:HANDLERS",
        )
        self._process = subprocess.Popen(
            [sys.executable, str(ROOT / "cli" / "worker_pool.py")], env=environment, cwd=ROOT
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE)


class Drain:
    """Jobs of one type, spread over some tenants; those of the turns before stay, as finished jobs do.

    Emptied tables would have each session plan all its statements anew in every turn, which none does at work.
    """

    def __init__(self, bench: BenchEnvironment, tenants: list[Tenant], handler: type[Tally]) -> None:
        self._bench = bench
        self._tenants = tenants
        self._handler = handler

    def turn(self, jobs: int) -> Contestant:
        """Return a contestant that drains so many jobs."""

        def drain() -> list[float]:
            each = jobs // len(self._tenants)
            put_at = self._put(each)
            admin = self._bench.admin
            if not wait_until(lambda: not _any(admin), within=PATIENCE, every=0.02):
                raise NotDrained("jobs were left")
            return [self._span(each, put_at)]

        return drain

    def _put(self, each: int) -> datetime:
        """Enqueue as `job_enqueue` does, but many at once, all committed and hinted at together; returns when."""
        admin = self._bench.admin
        admin.execute("BEGIN")
        row = admin.execute("SELECT now()").fetchone()
        assert row is not None, "a function call returns a row"  # noqa: S101
        for tenant in self._tenants:
            self._bench.in_schema(tenant)
            admin.execute(
                "WITH jobs AS (INSERT INTO background_jobs (type, version, queue, priority, payload, payload_hash,"
                " user_id, max_attempts)"
                " SELECT %(type)s, 1, 'hot', 1, jsonb_build_object('number', i), '', 'ana', 4"
                " FROM generate_series(1, %(count)s) AS i RETURNING *)"
                " INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend)"
                " SELECT id, n.id_of, queue, type, version, priority, run_at, 'ready', 'pool' FROM jobs,"
                " (SELECT id AS id_of FROM turno.tenants WHERE slug = %(slug)s) AS n",
                {"type": self._handler.type, "count": each, "slug": tenant.slug},
            )
        admin.execute("COMMIT")
        admin.execute("NOTIFY turno_jobs")
        put_at: datetime = row[0]
        return put_at

    def _span(self, each: int, put_at: datetime) -> float:
        spans = sql.SQL(" UNION ALL ").join(
            sql.SQL(
                "SELECT a.started_at, a.finished_at FROM {0}.background_job_attempts a JOIN {0}.background_jobs j"
                " ON j.id = a.job_id AND j.status = 'completed' JOIN {0}.notifications n ON n.job_id = j.id"
                " WHERE j.created_at >= {1}"
            ).format(sql.Identifier(tenant.schema), put_at)
            for tenant in self._tenants
        )
        return _span(self._bench.admin, spans, each * len(self._tenants))


class NotDrained(Exception):
    """What was to be measured did not happen."""


def _span(admin: psycopg.Connection[Any], spans: sql.Composable, jobs: int) -> float:
    """Return the milliseconds a job from the first start to the last end, by the database's clock."""
    query = sql.SQL("SELECT count(*), extract(epoch FROM max(b) - min(a)) FROM ({}) AS spans (a, b)").format(spans)
    row = admin.execute(query).fetchone()
    if row is None or row[0] != jobs:
        raise NotDrained(f"{jobs} jobs were to be completed once: {row}")
    return 1000 * float(row[1]) / jobs


def _any(admin: psycopg.Connection[Any]) -> bool:
    return admin.execute("SELECT FROM turno.tickets LIMIT 1").rowcount > 0
