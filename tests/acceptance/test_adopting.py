"""A running application adopts Turno: from the wheel to the first job over its own schemas, in six commands.

Its package is called `app`, its customers have a schema each, and it works all the while.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.repeating import Repeating
from tests.wheel import run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.deep

SCHEMAS = ("suc0001", "suc0002")
BEFORE = """
CREATE TABLE {0}.orders (id integer PRIMARY KEY, month text NOT NULL, amount numeric NOT NULL);
CREATE TABLE {0}.reports (month text PRIMARY KEY, amount numeric NOT NULL);
INSERT INTO {0}.orders VALUES (1, '2026-06', 10.50), (2, '2026-06', 20.00), (3, '2026-07', 99.00);
"""
HANDLER = """
from dataclasses import dataclass

from turno import JobHandler


@dataclass(frozen=True)
class Month:
    month: str


class MonthlyReport(JobHandler[Month]):
    type = "monthly_report"

    def handle(self, job, payload):
        row = job.connection.execute(
            "INSERT INTO reports SELECT month, sum(amount) FROM orders WHERE month = %s GROUP BY month"
            " RETURNING amount",
            [payload.month],
        ).fetchone()
        return {"amount": str(row[0])}
"""
ENQUEUE = """
import os

import psycopg
import turno

with psycopg.connect(os.environ["APP_DATABASE"]) as connection:
    for branch in ("suc0001", "suc0002"):
        turno.enqueue(connection, branch, "monthly_report", month="2026-06")
"""


class Application(Repeating):
    """The application at work as its own role: reads, writes, takes advisory locks, opens sessions."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.rounds = 0
        self.refused: list[str] = []
        self._url = url

    def once(self) -> None:
        try:
            with psycopg.connect(self._url) as connection:
                for schema in SCHEMAS:
                    connection.execute("SELECT pg_advisory_xact_lock(42)")
                    at = sql.Identifier(schema)
                    connection.execute(sql.SQL("SELECT sum(amount) FROM {}.orders").format(at))
                    connection.execute(sql.SQL("UPDATE {}.orders SET amount = amount WHERE id = 3").format(at))
            self.rounds += 1
        except psycopg.Error as error:
            self.refused.append(str(error))


@pytest.fixture
def erp(each_new_database: str) -> Iterator[str]:
    """The application's own login, which owns its customers' schemas."""
    role = f"erp_{os.urandom(4).hex()}"
    with psycopg.connect(each_new_database, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'erp'").format(sql.Identifier(role)))
        for schema in SCHEMAS:
            admin.execute(
                sql.SQL("CREATE SCHEMA {} AUTHORIZATION {}").format(sql.Identifier(schema), sql.Identifier(role))
            )
    url = make_conninfo(each_new_database, user=role, password="erp")
    with psycopg.connect(url, autocommit=True) as application:
        for schema in SCHEMAS:
            application.execute(BEFORE.format(schema).encode())
    yield url
    with psycopg.connect(each_new_database, autocommit=True) as admin:
        admin.execute(sql.SQL("DROP OWNED BY {0} CASCADE; DROP ROLE {0}").format(sql.Identifier(role)))


def test_six_commands_adopt_existing_schemas_and_run_jobs(
    each_new_database: str, erp: str, programs: Path, tmp_path: Path
) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__init__.py").write_text('"""The application."""\n')
    (tmp_path / "app" / "close_month.py").write_text(ENQUEUE)
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    environment = kept | {"APP_DATABASE": erp, "TURNO_RUN_FOLDER": str(tmp_path / "slots")}

    def command(program: str, *arguments: str) -> str:
        return run(str(programs / program), *arguments, cwd=tmp_path, env=environment)

    (tmp_path / "tenants.csv").write_text("slug,schema\n" + "".join(f"{schema},{schema}\n" for schema in SCHEMAS))
    with Application(erp) as application:
        # The first of the six is `pip install turno-jobs`.
        command("turno", "init", "--package", "app.jobs", "--database-url", each_new_database)
        (tmp_path / "app" / "jobs" / "monthly_report.py").write_text(HANDLER)
        command("turno", "db", "migrate", "--yes")
        command("turno", "schema", "adopt", "--from", "tenants.csv")
        command("python", "-m", "app.close_month")
        command("turno", "work", "--once")
    assert application.refused == []
    assert application.rounds > 0
    with psycopg.connect(erp) as connection:
        for schema in SCHEMAS:
            table = sql.Identifier(schema, "reports")
            rows = connection.execute(sql.SQL("SELECT month, amount::text FROM {}").format(table)).fetchall()
            assert rows == [("2026-06", "30.50")], schema
