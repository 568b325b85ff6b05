"""Rows and write-ahead log of a short job, from its submission to its counted outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, LiteralString

from benchmarks.environment import open_environment
from benchmarks.noop_handlers import Tally, TallyAlone
from benchmarks.report import Report
from benchmarks.resident import resident
from turno.jobs.new_job import NewJob
from turno.testing.wait import wait_until
from turno.wiring.shared import maintenance

if TYPE_CHECKING:
    from benchmarks.benchmark import Options
    from benchmarks.environment import BenchEnvironment
    from turno.jobs.handler import JobHandler
    from turno.tenancy.identity.tenant import Tenant

HANDLERS = "benchmarks.noop_handlers:HANDLERS"
MOST_ROWS = {"in a batch": 6.0, "alone": 8.0}
LEAST = 0.03  # rows a job: a table with fewer records workers or minutes
WAL: LiteralString = "SELECT pg_current_wal_lsn() - '0/0'"
SESSIONS: LiteralString = (
    "SELECT FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
)
WRITTEN: LiteralString = """
SELECT CASE schemaname WHEN 'turno' THEN '' ELSE 'tenant ' END || relname, n_tup_ins + n_tup_upd + n_tup_del
FROM pg_stat_user_tables WHERE schemaname = 'turno' OR starts_with(schemaname, 't_')
"""


def run(options: Options) -> Report:
    """Have a pool run short jobs that share commits, then short jobs with a commit each."""
    report = Report("rows", "WAL bytes a job")
    count = options.of(4_000, quick=1_000, smoke=64)
    rounds = options.of(5, quick=3, smoke=1)
    with open_environment() as bench:
        tenant = bench.tenant("suc0001")
        for name, handler in (("in a batch", Tally), ("alone", TallyAlone)):
            samples = [_written(bench, tenant, handler, count) for _ in range(rounds)]
            report.add({f"turno, {name}": [wal / count for wal, _ in samples]})
            rows = {table: n / count for table, n in samples[-1][1].items() if n / count >= LEAST}
            report.facts[f"rows a job, {name}"] = sum(rows.values())
            report.wanted[f"rows a job, {name}"] = MOST_ROWS[name]
            report.facts[f"rows by table, {name}"] = {table: round(n, 2) for table, n in rows.items()}
    return report


def _written(
    bench: BenchEnvironment, tenant: Tenant, handler: type[JobHandler[Any]], count: int
) -> tuple[float, dict[str, int]]:
    """Return the bytes of log and the rows of each table that these jobs write."""
    log, rows = _log_position(bench), _rows(bench)
    bench.enqueue_many(NewJob.of(handler, {"number": 1}, backend="pool", user_id="ana"), tenant, count)
    with resident(bench, fewest=1, most=1, handlers=HANDLERS):
        _wait_for_none(bench, "SELECT FROM turno.tickets")
    passes = maintenance(bench.settings(QUEUE_BACKEND="pool", TURNO_HANDLERS=HANDLERS))
    try:
        passes.run_once()
    finally:
        passes.close()
    _wait_for_none(bench, SESSIONS)  # a session reports the rows that it wrote when it ends
    later = _rows(bench)
    return _log_position(bench) - log, {table: n - rows.get(table, 0) for table, n in later.items()}


def _wait_for_none(bench: BenchEnvironment, query: LiteralString) -> None:
    if not wait_until(lambda: bench.admin.execute(query).rowcount == 0, within=120):
        raise RuntimeError(f"rows remain: {query}")


def _rows(bench: BenchEnvironment) -> dict[str, int]:
    bench.admin.execute("SELECT pg_stat_force_next_flush()")
    return {table: int(n) for table, n in bench.admin.execute(WRITTEN).fetchall()}


def _log_position(bench: BenchEnvironment) -> float:
    row: Any = bench.admin.execute(WAL).fetchone()
    return float(row[0])
