"""What a scrape, the stats and their charts cost where a thousand tenants have ended a million jobs."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg

from benchmarks.environment import COMPANY, open_environment
from benchmarks.report import Report
from benchmarks.sampling import quantile
from turno.store.engine import outcomes
from turno.store.operator import present, totals
from turno.store.operator.over_time import over_time
from turno.store.operator.troubles import troubles
from turno.tenancy.identity.session import service_session
from turno.web.metrics.families import exposition
from turno.web.metrics.scrape import scrape

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.benchmark import Options
    from benchmarks.environment import BenchEnvironment

TENANTS, ENDED, WAITING, DEAD = 1000, 1_000_000, 20_000, 100_000
TYPES, COUNT_BATCH = 5, 20_000
DEAD_AFTER = timedelta(seconds=30)
AT_MOST_MS = 20.0

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
        "INSERT INTO turno.outcomes (tenant_id, type, outcome, wait_ms, run_ms, at)"
        " SELECT 1 + floor(%(tenants)s * power(random(), 2)), 'type-' || n %% %(types)s,"
        " CASE n %% 40 WHEN 0 THEN 'failed' WHEN 1 THEN 'retried' ELSE 'completed' END,"
        " (10 * exp(6 * random()))::integer, (5 * exp(5 * random()))::integer,"
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
    """A cursor that counts what is executed."""

    executed = 0

    def execute(self, *given: Any, **named: Any) -> CountingCursor:
        """Execute, and count it."""
        CountingCursor.executed += 1
        super().execute(*given, **named)
        return self


def run(options: Options) -> Report:
    """Make the history, count it as maintenance does, then ask each endpoint's questions again and again."""
    report = Report("admin", "ms")
    ended = ENDED // 10 if options.quick else ENDED
    with open_environment() as bench:
        _make(bench, ended)
        began = time.perf_counter()
        with service_session(bench.logins, bench.logins.engine, application="bench-engine") as engine:
            while outcomes.count(engine, COUNT_BATCH, from_lowest=False):
                pass
        spent = time.perf_counter() - began
        bench.admin.execute("VACUUM ANALYZE turno.outcomes, turno.outcome_counts, turno.tickets, turno.dead_letters")
        with service_session(bench.logins, bench.logins.operator, application="bench-admin") as operator:
            samples, statements = _ask(_questions(operator), operator, 10 if options.quick else 100)
        rows = bench.admin.execute("SELECT count(*), count(*) FILTER (WHERE tenant_id = 0) FROM turno.outcome_counts")
        kept = rows.fetchone()
    report.add(samples)
    p95 = {name: quantile(values, 0.95) for name, values in samples.items()}
    report.facts |= {"tenants": TENANTS, "ended": ended, "waiting": WAITING, "dead letters": DEAD, "rows kept": kept}
    report.facts |= {"us of counting an outcome": 1e6 * spent / ended, "p95": p95, "statements": statements}
    report.facts |= {"p95 of /metrics": p95["/metrics"], "p95 of stats": p95["stats"]}
    report.wanted |= {"p95 of /metrics": AT_MOST_MS, "p95 of stats": AT_MOST_MS}
    return report


def _make(bench: BenchEnvironment, ended: int) -> None:
    numbers = {"tenants": TENANTS, "ended": ended, "waiting": WAITING, "dead": DEAD, "types": TYPES}
    for statement in MAKE:
        bench.admin.execute(statement, numbers | {"company": COMPANY} if "%(company)s" in statement else numbers)
    bench.admin.execute("ANALYZE")


def _questions(operator: psycopg.Connection[Any]) -> dict[str, Callable[[], object]]:
    def stats(tenant: str | None = None) -> None:
        if tenant:
            totals.by_tenant(operator, tenant=tenant)
        else:
            totals.by_type(operator)
        present.queued(operator, tenant=tenant)
        present.served(operator, DEAD_AFTER)
        over_time(operator, window=timedelta(hours=1), tenant=tenant)

    def metrics(*, tenants: bool = False) -> None:
        exposition(scrape(operator, dead_after=DEAD_AFTER, streams=0, tenants=tenants), "")

    return {
        "/metrics": metrics,
        "/metrics?tenants=true": lambda: metrics(tenants=True),
        "stats": stats,
        "stats of one tenant": lambda: stats("suc00001"),
        "3 h by type": lambda: over_time(operator, window=timedelta(hours=3), by="type"),
        "3 h by tenant": lambda: over_time(operator, window=timedelta(hours=3), by="tenant"),
        "24 h by type, 15 min": lambda: over_time(
            operator, window=timedelta(hours=24), step=timedelta(minutes=15), by="type"
        ),
        "troubles": lambda: troubles(operator, DEAD_AFTER),
    }


def _ask(
    questions: dict[str, Callable[[], object]], operator: psycopg.Connection[Any], times: int
) -> tuple[dict[str, list[float]], dict[str, int]]:
    operator.cursor_factory = CountingCursor
    samples: dict[str, list[float]] = {name: [] for name in questions}
    statements = {}
    for turn in range(times + 1):
        for name, ask in questions.items():
            before, began = CountingCursor.executed, time.perf_counter()
            ask()
            if turn:
                samples[name].append(1000 * (time.perf_counter() - began))
            statements[name] = CountingCursor.executed - before
    return samples, statements
