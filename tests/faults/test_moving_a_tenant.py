"""A tenant moves from one cell to another, by deploy/backup/move-tenant.sh: nothing is lost, and nothing runs twice."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from psycopg import sql

from tests.faults.test_backup_and_restore import REPLAY, SCRIPTS, all_ended, done, environment_of, follow, later
from tests.installation import LOOK_ALIKE, TABLES, ExampleInstallation, build_example
from tests.misbehaving_handlers import Faulty
from turno.dispatch.dispatcher import ENQUEUE, submission
from turno.tenancy.catalog import check
from turno.testing.build import build_installation
from turno.testing.checker import Checker
from turno.testing.servers import fresh_database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from uuid import UUID

    from cli.servers.embedded_postgres import Cluster

pytestmark = pytest.mark.deep

REGISTRY = "tests.faults.restored_handlers:REGISTRY"


@pytest.fixture
def old(cluster: Cluster, tmp_path: Path) -> Iterator[ExampleInstallation]:
    """A cell with two tenants that have orders."""
    with fresh_database(cluster) as url, build_example(url, tmp_path, LOOK_ALIKE) as example:
        example.faulty = True
        yield example


@pytest.fixture
def new(cluster: Cluster, tmp_path: Path) -> Iterator[ExampleInstallation]:
    """A cell on the same server, in which the tenants have just been added; its code has one handler more."""
    fill = dict.fromkeys(LOOK_ALIKE, lambda _: None)
    with (
        fresh_database(cluster) as url,
        build_installation(url, tmp_path, fill, ExampleInstallation, TABLES) as example,
    ):
        example.registry = REGISTRY
        yield example


def move(cluster: Cluster, old: ExampleInstallation, new: ExampleInstallation) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPTS / "move-tenant.sh", old.url, new.url, "suc0001"],
        env=environment_of(cluster),
        capture_output=True,
        text=True,
        check=False,
    )


def run(example: ExampleInstallation, job: UUID) -> None:
    claim = example.in_process.claim(job)
    assert claim is not None
    example.in_process.execute(claim)


def everything_of(example: ExampleInstallation, *tables: str) -> list[object]:
    query = sql.SQL("SELECT * FROM {} t ORDER BY t::text")
    return [example.rows(query.format(sql.Identifier(table))) for table in tables]


def test_a_tenant_moves_with_all_that_it_has(
    cluster: Cluster, old: ExampleInstallation, new: ExampleInstallation
) -> None:
    invoiced = old.enqueue({"order_ids": old.order_ids()[:3]}, idempotency_key="once")
    failed = old.enqueue({"how": "permanent"}, handler=Faulty)
    for job in (invoiced, failed):
        run(old, job)
    pending = old.enqueue({"how": "ok"}, handler=Faulty)
    waiting = old.enqueue({"how": "ok"}, handler=Faulty, run_at=later(old))
    old.rows("INSERT INTO turno.webhooks (job_id, tenant_id, url) VALUES (%s, %s, 'https://x')", waiting, old.one.id)
    old.rows(
        "INSERT INTO job_schedules (name, type, payload, priority, user_id, every, zone, spread, missed, next_at)"
        " VALUES ('nightly', 'faulty', '{\"how\": \"ok\"}', 1, 'ana', 86400, 'UTC', 0, 'skip', %s)",
        later(old),
    )
    # The old cell has no subscriber of this event.
    old.rows("INSERT INTO background_events (name, data, user_id) VALUES ('order.paid', '{\"order_id\": 7}', 'ana')")
    old.rows(
        "WITH made AS ("
        "INSERT INTO job_files (name, media_type, size, piece_bytes, user_id, uploaded, job_id, complete_at)"
        " VALUES ('a.csv', 'text/csv', 3, 1024, 'ana', false, %s, now()) RETURNING id)"
        " INSERT INTO job_file_pieces SELECT id, 0, 'abc' FROM made",
        invoiced,
    )
    old.rows("UPDATE turno.tenants SET weight = 7, jobs_per_day = 900 WHERE slug = 'suc0001'")

    assert "in the new cell suc0001 is at work" in move(cluster, old, new).stderr
    follow(new, "  turno tenant set suc0001 --paused\n")
    assert "in the old cell suc0001 is at work" in move(cluster, old, new).stderr
    assert new.rows("SELECT 1 FROM orders") == []
    follow(old, "  turno tenant set suc0001 --paused\n")
    was = everything_of(old, "background_jobs", "background_job_attempts", "invoices", "job_files", "job_file_pieces")
    reply = done(move(cluster, old, new))

    assert (
        everything_of(new, "background_jobs", "background_job_attempts", "invoices", "job_files", "job_file_pieces")
        == was
    )
    assert "jobs already" in move(cluster, old, new).stderr
    follow(new, reply)
    assert check(new.admin, new.logins) == []
    assert new.rows("SELECT weight, jobs_per_day FROM turno.tenants WHERE slug = 'suc0001'") == [
        {"weight": 7, "jobs_per_day": 900}
    ]
    assert new.rows("SELECT name, tenant_id FROM turno.schedules") == [{"name": "nightly", "tenant_id": new.one.id}]
    assert new.rows("SELECT job_id, tenant_id FROM turno.webhooks") == [{"job_id": waiting, "tenant_id": new.one.id}]
    assert new.rows("SELECT job_id FROM turno.dead_letters") == [{"job_id": failed}]
    assert new.job(waiting)["status"] == "pending"
    again = submission(new.new_job({"order_ids": old.order_ids()[:3]}, idempotency_key="once"))
    assert new.call(ENQUEUE, again)["job_id"] == invoiced
    follow(new, REPLAY)
    (ledger_job,) = new.rows("SELECT id FROM background_jobs WHERE type = 'ledger'")
    for job in (pending, ledger_job["id"]):
        run(new, job)
    new.make_due()
    run(new, waiting)
    assert all_ended(new)
    # The next invoice has the next number.
    run(new, new.enqueue({"order_ids": old.order_ids()[3:6]}))
    assert Checker(new.url, new.tenants.values()).violations(settled=False) == []
    assert old.job(pending)["status"] == "pending"
    assert old.rows("SELECT 1 FROM background_jobs WHERE type = 'ledger'") == []
