"""A migration that is killed half-way while jobs run: no job notices, and the next run resumes where it stopped."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from cli.demo.invoices import InvoiceIntegrity, check_invoices
from tests.installation import KEY, ROOT, ExampleInstallation
from turno.commands.db import print_standings
from turno.tenancy.schema_migrations.all_schemas import failed, migrate, status
from turno.tenancy.schema_migrations.files import Migrations
from turno.testing.wait import wait_until

# In the tenant that the session names it lasts until a test ends it.
STEP = """
SELECT CASE WHEN current_setting('test.slow', true) = current_schema() THEN pg_sleep(600) END;
ALTER TABLE background_jobs ADD COLUMN colour text;
"""
PROGRAM = """
import sys
from pathlib import Path
import psycopg
from turno.tenancy.identity.logins import Logins
from turno.tenancy.schema_migrations.files import Migrations
from turno.tenancy.schema_migrations.all_schemas import migrate
url, key, folder, slow = sys.argv[1:]
connect = lambda: psycopg.connect(url, autocommit=True, options=f"-c test.slow={slow}")
migrate(connect, Logins(url, key.encode()), migrations=Migrations.read(Path(folder)))
"""


def versions(example: ExampleInstallation, migrations: Migrations) -> dict[str, int]:
    return {
        state.slug: state.at for state in status(example.admin, example.logins, migrations=migrations) if state.slug
    }


def test_killed_migration_disturbs_no_job_and_resumes(
    example: ExampleInstallation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example.backend = "pool"
    folder = tmp_path / "migrations"
    shutil.copytree(ROOT / "turno" / "migrations", folder, ignore=shutil.ignore_patterns("*.py*", "__pycache__"))
    latest = max(int(step) for step in Migrations.read(folder).tenant.steps if step.isdecimal()) + 1
    (folder / "tenant" / "schema" / f"{latest:04d}_colour.sql").write_text(STEP, encoding="utf-8")
    steps = Migrations.read(folder)
    before = versions(example, steps)
    jobs = [
        example.enqueue({"order_ids": example.order_ids(tenant)[start::8]}, tenant=tenant)
        for start in range(8)
        for tenant in (example.one, example.other)
    ]
    example.start_pool(TURNO_MAX_CHILDREN="2")
    arguments = [sys.executable, "-c", PROGRAM, example.url, KEY, str(folder), example.other.schema]
    migrating = subprocess.Popen(arguments, cwd=ROOT)
    sleeping = "FROM pg_stat_activity WHERE query LIKE '%%pg_sleep(600)%%' AND pid <> pg_backend_pid()"
    assert wait_until(lambda: example.rows(f"SELECT 1 {sleeping}") != [], within=60)
    # The first may still wait for a lock that a job holds.
    assert wait_until(lambda: versions(example, steps)["suc0001"] == latest, within=60)
    migrating.kill()
    migrating.wait()
    example.rows(f"SELECT pg_terminate_backend(pid, 5000) {sleeping}")
    assert versions(example, steps) == {"suc0001": latest, "suc0002": before["suc0002"]}
    assert print_standings(status(example.admin, example.logins, migrations=steps)) == 1
    assert "run `turno db migrate`, which continues" in capsys.readouterr().out
    outcomes = migrate(lambda: psycopg.connect(example.url, autocommit=True), example.logins, migrations=steps)
    assert failed(outcomes) == []
    assert versions(example, steps) == {"suc0001": latest, "suc0002": latest}
    tenants = [example.one, example.other] * 8
    assert wait_until(
        lambda: all(example.job(job, tenant=tenant)["finished_at"] for job, tenant in zip(jobs, tenants, strict=True)),
        within=90,
    )
    for job_id, tenant in zip(jobs, tenants, strict=True):
        job = example.job(job_id, tenant=tenant)
        assert (job["status"], job["crashes"]) == ("completed", 0), job["error"]
    for tenant in (example.one, example.other):
        assert len(example.rows("SELECT 1 FROM invoices", tenant=tenant)) == len(example.order_ids(tenant))
        assert check_invoices(example.admin) == InvoiceIntegrity(0, 0, 0)
