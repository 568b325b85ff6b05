"""Jobs that do nothing, drained by two processes, in batches and singly, against a hand-written SKIP LOCKED loop."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

import psycopg
from psycopg import sql

from benchmarks.environment import ROOT, open_environment
from benchmarks.log_records import Turns, session_of_log
from benchmarks.noop_handlers import Tally, TallyAlone
from benchmarks.other_queues import (
    PATIENCE,
    PROCESSES,
    NotDrained,
    Workers,
    pgqueuer,
    procrastinate,
    skip_locked,
    span_of,
)
from benchmarks.peer import PeerMissing
from benchmarks.report import Report
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from datetime import datetime
    from types import TracebackType

    from benchmarks.benchmark import Options
    from benchmarks.environment import BenchEnvironment
    from benchmarks.sampling import Contestant
    from turno.tenancy.identity.tenant import Tenant

TENANTS = (1, 20, 100)
FLOOR = "floor"
# Of the floor's time.
TOGETHER_AT_MOST, ALONE_AT_MOST = 1 / 2, 1 / 0.6
# Of the peers' time.
PEERS_AT_MOST = {"procrastinate": 1 / 5, "pgqueuer": 1.0}


def run(options: Options) -> Report:
    """Sample milliseconds a job, in turns; every job's end is durable, and each was completed exactly once."""
    report = Report("throughput", "ms a job")
    jobs = options.of(3_000, quick=500, smoke=20)
    some = options.of(TENANTS, quick=TENANTS[:2], smoke=TENANTS[:1])
    with open_environment() as bench, ExitStack() as stack:
        log = stack.enter_context(session_of_log(bench))
        turns = {FLOOR: Turns(log)}
        floor = stack.enter_context(Workers(skip_locked(bench)))
        contestants: dict[str, Contestant] = {FLOOR: floor.turn(jobs, turns[FLOOR])}
        for peer in PEERS_AT_MOST:
            report.facts[peer] = "left out: ask for it with --peers"
        if options.peers:
            turns |= {peer: Turns(log) for peer in PEERS_AT_MOST}
            contestants |= _peers(bench, stack, report, jobs, turns)
        tenants = [bench.tenant(f"suc{number:04d}") for number in range(max(some))]
        stack.enter_context(Pool(bench))
        for handler, times in ((Tally, 5), (TallyAlone, 1)):
            for count in some:
                name = f"{handler.type}, {count} tenants"
                turns[name] = Turns(log)
                contestants[name] = Drain(bench, tenants[:count], handler).turn(times * jobs, turns[name])
        samples = options.sample(contestants, rounds=15, quick=3)
    report.add(samples)
    for name in samples:
        if name not in (FLOOR, *PEERS_AT_MOST):
            alone = name.startswith(TallyAlone.type)
            report.compare(samples, name, FLOOR, at_most=ALONE_AT_MOST if alone else TOGETHER_AT_MOST)
            for peer in filter(samples.__contains__, PEERS_AT_MOST):
                report.compare(samples, name, peer, at_most=None if alone else PEERS_AT_MOST[peer])
    report.facts["jobs/s"] = {name: round(1000 / figure.median) for name, figure in report.figures.items()}
    report.facts["ratio"] = {name: round(1 / ratio.median, 3) for name, ratio in report.ratios.items()}
    report.facts["per job"] = {name: turns[name].per_job() for name in samples}
    report.facts |= {"processes": PROCESSES}
    return report


def _peers(
    bench: BenchEnvironment, stack: ExitStack, report: Report, jobs: int, turns: dict[str, Turns]
) -> dict[str, Contestant]:
    result: dict[str, Contestant] = {}
    for name, queue in (("procrastinate", procrastinate), ("pgqueuer", pgqueuer)):
        try:
            started = queue(bench)
        except PeerMissing as missing:
            report.facts[name] = str(missing)
        else:
            result[name] = stack.enter_context(Workers(started)).turn(jobs, turns[name])
            report.facts[name] = started.version(name)
    return result


class Pool:
    """The real resident worker, with as many children as there are processes."""

    def __init__(
        self, bench: BenchEnvironment, handlers: str = "benchmarks.noop_handlers:HANDLERS", **extra: str
    ) -> None:
        self._bench = bench
        self._extra = {"TURNO_HANDLERS": handlers} | extra

    def __enter__(self) -> Self:
        environment = self._bench.environment(
            QUEUE_BACKEND="pool",
            TURNO_MIN_CHILDREN=str(PROCESSES),
            TURNO_MAX_CHILDREN=str(PROCESSES),
            TURNO_LIMITS="child_sessions=32",
            **self._extra,
        )
        with (self._bench.folder / "pool.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(ROOT / "cli" / "worker_pool.py")], env=environment, cwd=ROOT, stderr=log
            )
        return self

    @property
    def pid(self) -> int:
        """The parent's process."""
        return self._process.pid

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE)


class Drain:
    """Jobs of one type, spread over some tenants; the jobs of earlier turns stay as finished jobs.

    Emptied tables would have each session plan all its statements anew in every turn, which none does at work.
    """

    def __init__(self, bench: BenchEnvironment, tenants: list[Tenant], handler: type[Tally]) -> None:
        self._bench = bench
        self._tenants = tenants
        self._handler = handler

    def turn(self, jobs: int, turns: Turns) -> Contestant:
        """Return a contestant that drains `n` jobs, and counts the records of the log."""

        def drain() -> list[float]:
            each = jobs // len(self._tenants)
            put_at = self._put(each)
            turns.begin()
            self._bench.admin.execute("NOTIFY turno_jobs")
            admin = self._bench.admin
            if not wait_until(lambda: not _any(admin), within=PATIENCE, every=0.02):
                raise NotDrained("jobs were left")
            took, p99 = self._span(each, put_at)
            turns.end(each * len(self._tenants), p99)
            return [took]

        return drain

    def _put(self, each: int) -> datetime:
        """Insert jobs and tickets, all committed together; returns the time."""
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
        put_at: datetime = row[0]
        return put_at

    def _span(self, each: int, put_at: datetime) -> tuple[float, float]:
        spans = sql.SQL(" UNION ALL ").join(
            sql.SQL(
                "SELECT a.started_at, a.finished_at FROM {0}.background_job_attempts a JOIN {0}.background_jobs j"
                " ON j.id = a.job_id AND j.status = 'completed' JOIN {0}.notifications n ON n.job_id = j.id"
                " WHERE j.created_at >= {1}"
            ).format(sql.Identifier(tenant.schema), put_at)
            for tenant in self._tenants
        )
        return span_of(self._bench.admin, spans, each * len(self._tenants))


def _any(admin: psycopg.Connection[Any]) -> bool:
    return admin.execute("SELECT FROM turno.tickets LIMIT 1").rowcount > 0
