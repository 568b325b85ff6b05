"""A release with another table and another function is installed while jobs wait, are due later, and run."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.installation import ROOT, ExampleInstallation
from tests.misbehaving_handlers import Faulty
from turno.tenancy.catalog import check
from turno.tenancy.schema_migrations.all_schemas import failed, migrate
from turno.tenancy.schema_migrations.files import Files, Migrations
from turno.testing.checker import Checker
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from uuid import UUID

    from turno.tenancy.identity.tenant import Tenant

UP = """
ALTER TABLE background_jobs ADD COLUMN colour text NOT NULL DEFAULT 'of the release before';
CREATE INDEX background_jobs_by_colour ON background_jobs (colour);
"""
CONTROL_UP = "ALTER TABLE tenants ADD COLUMN colour text; CREATE TABLE colours (name text);"
RECORDED = "    RETURN stop;\n"
COLOURED = "    UPDATE background_jobs SET colour = 'of the next release' WHERE id = p_job;\n"


@pytest.fixture
def this_release(tmp_path: Path) -> Migrations:
    return Migrations.read(copied(tmp_path / "this"))


@pytest.fixture
def next_release(tmp_path: Path) -> Migrations:
    """The same with one step more, and a function that writes the step's rows."""
    folder = copied(tmp_path / "next")
    version = latest(Migrations.read(folder).tenant) + 1
    (folder / "tenant" / "schema" / f"{version:04d}_colour.sql").write_text(UP)
    version = latest(Migrations.read(folder).control) + 1
    (folder / "control" / "schema" / f"{version:04d}_colour.sql").write_text(CONTROL_UP)
    function = folder / "tenant" / "functions" / "job_checkpoint.sql"
    text = function.read_text()
    assert text.count(RECORDED) == 1
    function.write_text(text.replace(RECORDED, COLOURED + RECORDED))
    return Migrations.read(folder)


def latest(files: Files) -> int:
    return max(int(version) for version in files.steps if version.isdecimal())


def copied(folder: Path) -> Path:
    shutil.copytree(ROOT / "turno" / "migrations", folder, ignore=shutil.ignore_patterns("*.py*", "__pycache__"))
    return folder


def test_jobs_live_through_an_upgrade(
    example: ExampleInstallation, this_release: Migrations, next_release: Migrations, tmp_path: Path
) -> None:
    example.backend, example.faulty = "pool", True
    example.rows("DELETE FROM customers WHERE company_name = 'Faulty'")
    tenants = (example.one, example.other)

    def connect() -> psycopg.Connection[object]:
        return psycopg.connect(example.url, autocommit=True)

    def enqueue(how: str, **options: object) -> list[tuple[UUID, Tenant]]:
        return [(example.enqueue({"how": how}, handler=Faulty, tenant=tenant, **options), tenant) for tenant in tenants]

    def reached(job_id: UUID, tenant: Tenant) -> int:
        rows = example.rows("SELECT state FROM background_job_checkpoints WHERE job_id = %s", job_id, tenant=tenant)
        return int(rows[0]["state"]) if rows else 0

    def go_on() -> bool:
        """Return whether the work under way has progressed since the call."""
        before = [reached(*job) for job in under_way]
        return wait_until(lambda: all(reached(*job) > at for job, at in zip(under_way, before, strict=True)), within=30)

    def read(jobs: list[tuple[UUID, Tenant]]) -> list[dict[str, Any]]:
        # Not every column: the test's own session would find that its prepared statement has a different one now.
        query = "SELECT status, attempt, errors, crashes, finished_at FROM background_jobs WHERE id = %s"
        return [row for job_id, tenant in jobs for row in example.rows(query, job_id, tenant=tenant)]

    def colours(jobs: list[tuple[UUID, Tenant]]) -> set[str]:
        query = "SELECT colour FROM background_jobs WHERE id = %s"
        return {row["colour"] for job_id, tenant in jobs for row in example.rows(query, job_id, tenant=tenant)}

    under_way = enqueue("checkpoint_until_signal")
    pool = example.start_pool(TURNO_MAX_CHILDREN="2", MEET=str(tmp_path))
    assert go_on()
    waiting = enqueue("ok")
    scheduled = enqueue("ok", run_at=datetime.now(UTC) + timedelta(hours=1))

    assert failed(migrate(connect, example.logins, migrations=next_release)) == []
    assert check(example.admin, example.logins) == []
    assert wait_until(lambda: colours(under_way) == {"of the next release"}, within=30)
    assert colours(waiting + scheduled) == {"of the release before"}
    in_between = enqueue("ok")
    # Each has committed a checkpoint; that it runs is shown 50 ms after it began.
    assert wait_until(
        lambda: [(job["status"], job["attempt"]) for job in read(under_way)] == [("running", 1)] * 2, within=30
    )

    pool.terminate()
    assert pool.wait(60) == 0
    assert {job["status"] for job in read(under_way)} == {"pending"}
    (refused,) = migrate(connect, example.logins, migrations=this_release)
    assert "applied by a newer release" in (refused.error or "")
    pool = example.start_pool(TURNO_MAX_CHILDREN="2", MEET=str(tmp_path))
    assert go_on()

    (tmp_path / "go").touch()
    example.make_due()
    jobs = under_way + waiting + scheduled + in_between
    assert wait_until(lambda: all(job["finished_at"] for job in read(jobs)), within=60)
    assert {(job["status"], job["errors"], job["crashes"]) for job in read(jobs)} == {("completed", 0, 0)}
    pool.terminate()
    assert pool.wait(60) == 0
    assert Checker(example.url, example.tenants.values()).violations(settled=True) == []
