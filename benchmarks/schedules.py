"""The lateness of schedules of many tenants, the cost of a firing, and the cost while no schedule is due."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, LiteralString

import psycopg
from psycopg import sql

from benchmarks import processor_time
from benchmarks.environment import KEY, open_environment
from benchmarks.latency_probe import Ring
from benchmarks.report import Report
from benchmarks.resident import resident
from benchmarks.sampling import quantile
from turno.capabilities.schedules.firing import due_tenants, fire_due
from turno.capabilities.schedules.recurring_job import RecurringJob
from turno.maintenance.each_tenant import EachTenant
from turno.store.engine.announcements import Announcement
from turno.store.engine.engine import Engine
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.session import service_session
from turno.tenancy.provisioning.install import install

if TYPE_CHECKING:
    from benchmarks.benchmark import Options
    from benchmarks.environment import BenchEnvironment
    from turno.tenancy.identity.tenant import Tenant

EACH = 10  # schedules of a tenant
P99_AT_MOST = 1000.0  # milliseconds
NONE, MANY = "due tenants, no schedules", "due tenants, none due"
TURN = 20
PUT: LiteralString = """
INSERT INTO job_schedules (name, type, payload, priority, user_id, every, zone, spread, missed, next_at)
VALUES (%s, 'ring', '{}', 1, 'ana', %s, 'UTC', %s, 'once', %s)
"""
BEGAN: LiteralString = """
SELECT extract(epoch FROM a.started_at - r.moment)::float8 * 1000
FROM {schema}.job_schedule_runs r JOIN {schema}.background_job_attempts a ON a.job_id = r.job_id AND a.attempt = 1
WHERE r.moment BETWEEN %s AND %s
"""
DUE: LiteralString = "SELECT count(*) FROM {schema}.job_schedule_runs WHERE moment BETWEEN %s AND %s"


def run(options: Options) -> Report:
    """Run a pool for the jobs of the schedules, then postpone all schedules."""
    report = Report("schedules", "ms")
    # Many schedules fire in the same second, each with the login of another tenant.
    tenants, period, seconds = options.of((1_000, 600, 60.0), quick=(20, 60, 8.0), smoke=(5, 60, 3.0))
    with open_environment() as bench:
        listed = [bench.tenant(f"suc{number:04}") for number in range(tenants)]
        bench.admin.execute("VACUUM ANALYZE")
        _put(bench, listed, period, ahead=options.of(60, quick=6, smoke=3))
        with resident(bench, fewest=2, most=2) as pool:
            before = processor_time.milliseconds(pool.pid)
            begin, end = _watched(bench, seconds)
            report.facts["processor of the pool's parent, %"] = (
                (processor_time.milliseconds(pool.pid) - before) / seconds / 10
            )
            errors = _all(bench, listed, BEGAN, begin, end)
        wanted = sum(_all(bench, listed, DUE, begin, end))
        report.add({"firing to beginning": errors})
        p99 = quantile(errors, 0.99)
        report.facts |= {
            "tenants": tenants,
            "schedules": tenants * EACH,
            "each every, s": period,
            "firings": len(errors),
            "p99": p99,
        }
        report.wanted["p99"] = P99_AT_MOST
        if len(errors) != wanted or not errors:
            report.broken.append(f"{wanted} jobs were due, {len(errors)} began")
        report.add({"a firing, in maintenance": _firings(bench, listed[:20])})
        _idle(bench, report, options)
    return report


def _put(bench: BenchEnvironment, tenants: list[Tenant], period: int, *, ahead: int) -> None:
    """Save the schedules as they are saved, but a statement for all of a tenant's."""
    Engine.on(bench.admin).announce([Announcement("ring", 1, Ring.queue, 1)], 20)
    begin = datetime.now(UTC) + timedelta(seconds=ahead)  # the server is on this host
    for tenant in tenants:
        rows = []
        for number in range(EACH):
            new = RecurringJob(name=f"n{number}", handler=Ring, payload={}, user_id="ana", every=period)
            rows.append((new.name, period, new.seconds, new.rule(tenant.slug).next_after(begin)))
        with bench.in_schema(tenant).cursor() as cursor:
            cursor.executemany(PUT, rows)


def _watched(bench: BenchEnvironment, seconds: float) -> tuple[datetime, datetime]:
    """Wait until every moment of a number of seconds is past and has its job; return the bounds."""
    row = bench.admin.execute("SELECT min(next_at) FROM turno.schedules").fetchone()
    assert row is not None, "there are schedules"  # noqa: S101
    begin: datetime = row[0]
    end = begin + timedelta(seconds=seconds)
    late: LiteralString = "SELECT clock_timestamp() > %s + interval '3 s'"
    while bench.admin.execute(late, [end]).fetchone() != (True,):
        time.sleep(0.5)
    return begin, end


def _all(
    bench: BenchEnvironment, tenants: list[Tenant], question: LiteralString, begin: datetime, end: datetime
) -> list[float]:
    result: list[float] = []
    for tenant in tenants:
        requested = sql.SQL(question).format(schema=sql.Identifier(tenant.schema))
        result += [value for (value,) in bench.admin.execute(requested, (begin, end)).fetchall()]
    return result


def _firings(bench: BenchEnvironment, tenants: list[Tenant]) -> list[float]:
    """Return the cost of each schedule in the task that inserts its next jobs: the moments of 90 seconds."""
    for tenant in tenants:
        bench.in_schema(tenant).execute("UPDATE job_schedules SET next_at = next_at + interval '1 hour'")
        bench.in_schema(tenant).execute("UPDATE job_schedules SET next_at = clock_timestamp() + interval '1 s'")
    began: list[float] = []
    with closing(_engine(bench.logins)) as engine:
        each_tenant = EachTenant(engine, at_each_step=lambda: began.append(time.perf_counter()))
        each_tenant.complete = True
        fire_due(engine, each_tenant)
    return [(end - begin) * 1000 for begin, end in pairwise(began)]


def _idle(bench: BenchEnvironment, report: Report, options: Options) -> None:
    """Compare the query for due tenants where nothing is due with that of an installation without schedules."""
    bench.admin.execute("UPDATE turno.schedules SET next_at = next_at + interval '1 day'")
    bench.admin.execute("VACUUM ANALYZE turno.schedules")
    url = bench.database("empty")
    empty = Logins(url, KEY.encode())
    with psycopg.connect(url, autocommit=True) as admin:
        install(admin, empty)
        with closing(_engine(empty)) as alone, closing(_engine(bench.logins)) as among:
            samples = options.sample(
                {NONE: lambda: _requested(alone), MANY: lambda: _requested(among)}, rounds=100, quick=20
            )
    report.add(samples)
    report.compare(samples, MANY, NONE)


def _requested(engine: Engine) -> list[float]:
    took = []
    for _ in range(TURN):
        start = time.perf_counter()
        result = due_tenants(engine)
        took.append((time.perf_counter() - start) * 1000)
        assert result == [], "nothing is due"  # noqa: S101
    return took


def _engine(logins: Logins) -> Engine:
    return Engine.on(service_session(logins, logins.engine, application="bench-engine"))
