"""Many tenants added, schema, roles and rights included, against the bare SQL files; then a migration of nothing."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from benchmarks.environment import KEY, TABLES, open_environment
from benchmarks.report import Report
from benchmarks.sampling import milliseconds, timed
from turno.tenancy.identity.logins import Logins
from turno.tenancy.provisioning.install import install
from turno.tenancy.schema_migrations.all_schemas import migrate

if TYPE_CHECKING:
    from benchmarks.benchmark import Options
    from benchmarks.environment import BenchEnvironment
    from benchmarks.sampling import Contestant

MANY = 200
TURN = 4  # tenants for each bare schema
FLOOR, OURS = "bare files", "tenant"


def run(options: Options) -> Report:
    """Measure each tenant's adding, then how long `migrate` takes to find that nothing is to be done."""
    report = Report("provision", "ms")
    with open_environment() as bench, psycopg.connect(bench.database("floor"), autocommit=True) as beside:
        contestants = {FLOOR: _bare(beside), OURS: _add(bench)}
        samples = options.sample(contestants, rounds=MANY // TURN, quick=8, warm_up=0)
        outcomes: list[Any] = []
        connect = partial(psycopg.connect, bench.url, autocommit=True)
        again = milliseconds(lambda: outcomes.extend(migrate(connect, bench.logins)))
    report.add({**samples, "migrate again": [again]})
    report.compare(samples, OURS, FLOOR)
    report.wanted[f"seconds for {MANY}"] = 20.0
    report.facts |= {
        "tenants": len(samples[OURS]),
        f"seconds for {MANY}": sum(samples[OURS]) / 1000 * MANY / len(samples[OURS]),
        "changed by migrating again": len(outcomes),
    }
    return report


def _add(bench: BenchEnvironment) -> Contestant:
    slugs = (f"suc{number:04d}" for number in count())
    return timed(lambda: bench.tenant(next(slugs)), times=TURN)


def _bare(admin: psycopg.Connection[Any]) -> Contestant:
    """Return a function that runs the same files in a second database as superuser, each schema in one transaction."""
    install(admin, Logins(f"dbname={admin.info.dbname}", KEY.encode()))
    files = TABLES
    steps = [step.up for source in files.of_tenant for step in source.steps.values()]
    texts = [text.encode() for text in (files.tenant.declarations, *steps, files.tenant.functions)]
    names = (f"bare_{number}" for number in count())

    def add() -> None:
        schema = sql.Identifier(next(names))
        with admin.transaction():
            admin.execute(sql.SQL("CREATE SCHEMA {}").format(schema))
            admin.execute(sql.SQL("SET LOCAL search_path = {}, pg_temp").format(schema))
            for text in texts:
                admin.execute(text, prepare=False)

    return timed(add)
