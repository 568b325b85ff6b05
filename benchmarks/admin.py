"""The cost of /metrics, the statistics and every page of /admin with a thousand tenants and a million ended jobs."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import psycopg
from flask import Flask

from benchmarks.environment import COMPANY, open_environment
from benchmarks.processor_time import milliseconds
from benchmarks.report import Report
from benchmarks.sampling import quantile
from turno import Principal, Turno
from turno.store.engine.engine import Engine
from turno.store.operator.troubles import troubles
from turno.tenancy.identity.session import service_session
from turno.web.services import services_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.benchmark import Options
    from benchmarks.environment import BenchEnvironment

TENANTS, ENDED, WAITING, DEAD = 1000, 1_000_000, 20_000, 100_000
TYPES, COUNT_BATCH = 5, 20_000
DEAD_AFTER = timedelta(seconds=30)
SCRAPE_MS, PAGE_MS = 20.0, 200.0
AS_BEA = "X-Bea"
FLOOR = "floor: count to 100,000"
SCRAPES = {"/metrics": "/metrics", "stats": "/api/admin/jobs/stats"}
PAGES = {
    "/metrics?tenants=true": "/metrics?tenants=true",
    "stats of one tenant": "/api/admin/jobs/stats?tenant=suc00001",
    "stats, 3 h by type": "/api/admin/jobs/stats?minutes=180&by=type",
    "stats, 3 h by tenant": "/api/admin/jobs/stats?minutes=180&by=tenant",
    "stats, 24 h by type": "/api/admin/jobs/stats?minutes=1440&step=15&by=type",
    "API: tenants": "/api/admin/tenants",
    "API: types": "/api/admin/types",
    "API: workers": "/api/admin/workers",
    "API: audit": "/api/admin/audit",
    "API: failed jobs": "/api/admin/jobs?status=failed",
    "API: failed jobs by error": "/api/admin/jobs/groups?by=error",
    "/admin": "/admin",
    "/admin/jobs": "/admin/jobs",
    "/admin/jobs of a tenant": "/admin/jobs?tenant=suc00001&since=all",
    "/admin/types": "/admin/types",
    "/admin/charts": "/admin/charts",
    "/admin/charts, 24 h by type": "/admin/charts?window=24h&by=type",
    "/admin/charts, 24 h by tenant": "/admin/charts?window=24h&by=tenant",
    "/admin/queues": "/admin/queues",
    "/admin/tenants": "/admin/tenants",
    "/admin/tenants/suc00001": "/admin/tenants/suc00001",
    "/admin/failures": "/admin/failures",
    "/admin/workers": "/admin/workers",
    "/admin/audit": "/admin/audit",
}
# An operator of one company sends the requests; this company has all tenants.
OF_COMPANY = {
    "/admin of a company": "/admin",
    "/admin/charts of a company, 1 h": "/admin/charts",
    "/admin/charts of a company, 24 h": "/admin/charts?window=24h",
    "/admin/charts of a company, 24 h by type": "/admin/charts?window=24h&by=type",
}
# Rows that scans of tables and of indexes gave, as the server counts them.
ROWS_READ = """
SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE schemaname = 'turno')
     + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = 'turno')
"""

MAKE: tuple[str, ...] = (
    (
        "INSERT INTO turno.workers (backend, host, pid, types, versions, alive_at)"
        " SELECT 'pool', 'app-1', 7, array_agg('type-' || n), array_agg(1::smallint), now() + interval '1 hour'"
        " FROM generate_series(0, %(types)s - 1) AS n"
    ),
    (
        "INSERT INTO turno.tenants (slug, company_id, schema, owner_role, handler_role, api_role, state)"
        " SELECT 'suc' || lpad(n::text, 5, '0'), c.id, 't_' || lpad(to_hex(n), 12, '0'), 'o' || n, 'r' || n, 'a' || n,"
        " 'active' FROM turno.companies c, generate_series(1, %(tenants)s) AS n WHERE c.slug = %(company)s"
    ),
    (
        "INSERT INTO turno.handlers (type, version, queue, max_attempts, pending_limit)"
        " SELECT 'type-' || n, 1, 'cold', 4, 20 FROM generate_series(0, %(types)s - 1) AS n"
    ),
    # Most jobs are of few tenants and the last hours, as they are in life; one in twenty failed or is tried again.
    (
        "INSERT INTO turno.outcome_batches (tenant_id, type, outcome, jobs, wait_ms, run_ms, at)"
        " SELECT 1 + floor(%(tenants)s * power(random(), 2)), 'type-' || n %% %(types)s,"
        " CASE n %% 40 WHEN 0 THEN 'failed' WHEN 1 THEN 'retried' ELSE 'completed' END, ARRAY[gen_random_uuid()],"
        " ARRAY[(10 * exp(6 * random()))::integer], ARRAY[(5 * exp(5 * random()))::integer],"
        " clock_timestamp() - interval '47 hours' * power(1 - n::float8 / %(ended)s, 2)"
        " FROM generate_series(1, %(ended)s) AS n"
    ),
    (
        "INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend)"
        " SELECT gen_random_uuid(), 1 + n %% %(tenants)s, 'cold', 'type-' || n %% %(types)s, 1, 1,"
        " now() - interval '1 minute' * random(), 'ready', 'pool' FROM generate_series(1, %(waiting)s) AS n"
    ),
    (
        "INSERT INTO turno.dead_letters (job_id, tenant_id, type, error)"
        " SELECT gen_random_uuid(), 1 + n %% %(tenants)s, 'type-' || n %% %(types)s, 'Refused: no ' || n %% 50"
        " FROM generate_series(1, %(dead)s) AS n"
    ),
)


class CountingCursor(psycopg.Cursor[Any]):
    """A cursor that counts its statements."""

    executed = 0

    def execute(self, *given: Any, **named: Any) -> CountingCursor:
        """Execute, and count it."""
        CountingCursor.executed += 1
        super().execute(*given, **named)
        return self


@dataclass(slots=True)
class Cost:
    """The milliseconds of the answers to a request; `server` is the processor time of the database's session."""

    passed: list[float] = field(default_factory=list)
    server: list[float] = field(default_factory=list)
    statements: int = 0
    rows_read: int = 0


def run(options: Options) -> Report:
    """Make the history, count it as maintenance does, then ask for each page and endpoint again and again."""
    report = Report("admin", "ms")
    ended = options.of(ENDED, quick=ENDED // 10, smoke=ENDED // 10_000)
    with open_environment() as bench:
        _make(bench, ended)
        began = time.perf_counter()
        with Engine.on(service_session(bench.logins, bench.logins.engine, application="bench-engine")) as engine:
            while engine.count_outcomes(COUNT_BATCH):
                pass
            engine.execute("SELECT fold_dead_letter_counts()")
        spent = time.perf_counter() - began
        bench.admin.execute("VACUUM ANALYZE")
        with service_session(bench.logins, bench.logins.operator, application="bench-admin") as operator:
            costs = _ask(_questions(bench, operator), bench, operator, options.of(40, quick=5, smoke=1))
        kept = bench.admin.execute(
            "SELECT count(*), count(*) FILTER (WHERE scope <= 0), pg_table_size('turno.statistics')"
            " FROM turno.statistics"
        ).fetchone()
    report.add({name: cost.passed for name, cost in costs.items()})
    report.facts |= {"tenants": TENANTS, "ended": ended, "waiting": WAITING, "dead letters": DEAD, "rows kept": kept}
    report.facts["us of counting an outcome"] = 1e6 * spent / ended
    for name, cost in costs.items():
        report.facts[f"of {name}"] = {
            "p95 ms": round(quantile(cost.passed, 0.95), 1),
            "server ms": round(quantile(cost.server, 0.5), 1),
            "statements": cost.statements,
            "rows read": cost.rows_read,
        }
    for names, at_most in ((SCRAPES, SCRAPE_MS), (PAGES | OF_COMPANY, PAGE_MS)):
        for name in names:
            report.facts[f"p95 of {name}"] = quantile(costs[name].passed, 0.95)
            report.wanted[f"p95 of {name}"] = at_most
    return report


def _make(bench: BenchEnvironment, ended: int) -> None:
    numbers = {"tenants": TENANTS, "ended": ended, "waiting": WAITING, "dead": DEAD, "types": TYPES}
    for statement in MAKE:
        bench.admin.execute(statement, numbers | {"company": COMPANY} if "%(company)s" in statement else numbers)
    bench.admin.execute("ANALYZE")


def _questions(bench: BenchEnvironment, operator: psycopg.Connection[Any]) -> dict[str, Callable[[], object]]:
    app = Flask("bench")
    eva = Principal(user="eva", tenants=(), role="operator", expires_at=datetime.now(UTC).timestamp() + 86_400)
    bea = replace(eva, user="bea", companies=(COMPANY,))
    Turno(app, settings=bench.settings(), principal=lambda request: bea if AS_BEA in request.headers else eva)

    @contextmanager
    def lend() -> Iterator[psycopg.Connection[Any]]:
        yield operator

    services_of(app).operator = lend
    client = app.test_client()

    def get(address: str, headers: dict[str, str] | None = None) -> None:
        answer = client.get(address, headers=headers)
        assert answer.status_code == HTTPStatus.OK, f"{address}: {answer.text[:300]}"  # noqa: S101 - not of a refusal

    def floor() -> None:
        operator.execute("SELECT count(*) FROM generate_series(1, 100000)")

    requested: dict[str, Callable[[], object]] = {FLOOR: floor, "troubles": lambda: troubles(operator, DEAD_AFTER)}
    requested |= {name: partial(get, address) for name, address in (SCRAPES | PAGES).items()}
    return requested | {name: partial(get, address, {AS_BEA: "yes"}) for name, address in OF_COMPANY.items()}


def _ask(
    questions: dict[str, Callable[[], object]], bench: BenchEnvironment, operator: psycopg.Connection[Any], times: int
) -> dict[str, Cost]:
    operator.cursor_factory = CountingCursor
    costs = {name: Cost() for name in questions}
    pid = operator.info.backend_pid
    for turn in range(times + 1):
        for name, ask in questions.items():
            before, rows = CountingCursor.executed, 0 if turn else _rows_read(bench, operator)
            used, began = milliseconds(pid), time.perf_counter()
            ask()
            passed, server = 1000 * (time.perf_counter() - began), milliseconds(pid) - used
            if turn:
                costs[name].passed.append(passed)
                costs[name].server.append(server)
            else:
                costs[name].statements = CountingCursor.executed - before
                costs[name].rows_read = _rows_read(bench, operator) - rows
    return costs


def _rows_read(bench: BenchEnvironment, operator: psycopg.Connection[Any]) -> int:
    psycopg.Cursor(operator).execute("SELECT pg_stat_force_next_flush()")
    row = bench.admin.execute(ROWS_READ).fetchone()
    return int(row[0]) if row else 0
