"""The scripts of deploy/backup, rehearsed: a backup is taken while jobs run, and the server is lost after it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from click.testing import CliRunner
from psycopg import sql

from cli.servers.embedded_postgres import Cluster
from cli.servers.postgres_binaries import find_binaries
from tests.authority import tax_authority
from tests.capabilities.adoption.host_application import Host
from tests.faults.own_server import own_example, reconnect
from tests.faults.steady_client import steady_client
from tests.faults.test_outside_effects import invoices
from tests.hurried_sync import URL_VARIABLE, HurriedSync
from tests.installation import ROOT, ExampleInstallation
from tests.misbehaving_handlers import Faulty
from turno.commands.main import main
from turno.tenancy.catalog import check
from turno.tenancy.identity.directory import read_tenant
from turno.tenancy.identity.session import handler_session
from turno.tenancy.identity.tenant import HandlerLogin
from turno.tenancy.schema_migrations.files import packaged
from turno.testing.checker import Checker
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.deep

SCRIPTS = ROOT / "deploy" / "backup"
REPLAY = "  turno event replay --tenant suc0001 --type ledger --missing --since 2020-01-01T00:00:00Z\n"
QUICK = {"TURNO_HEARTBEAT_SECONDS": "0.5", "TURNO_DEAD_AFTER_SECONDS": "3"}
ONCE = {
    "an order has not one invoice": """
        SELECT o.id FROM orders o LEFT JOIN invoices i ON i.order_id = o.id
        WHERE o.id < 1000000 GROUP BY o.id HAVING count(i.id) <> 1
    """,
    "a number of an invoice is missing": """
        SELECT letter FROM invoices WHERE order_id < 1000000 GROUP BY point_of_sale, letter
        HAVING count(*) <> max(number) - min(number) + 1
    """,
}


def environment_of(cluster: Cluster) -> dict[str, str]:
    """The variables of an administrator who works on this server."""
    return {
        "PATH": f"{find_binaries()}:{os.environ['PATH']}",
        "PGHOST": str(cluster.socket_directory),
        "PGPORT": str(cluster.port),
        "PGUSER": "postgres",
        "PGPASSWORD": cluster.files.password,
        "PGDATABASE": "turno",
    }


def script(cluster: Cluster, name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a script of deploy/backup as an administrator would, on this server."""
    return subprocess.run(
        [SCRIPTS / name, *map(str, arguments)],
        env=environment_of(cluster),
        capture_output=True,
        text=True,
        check=False,
    )


def done(result: subprocess.CompletedProcess[str]) -> str:
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def follow(example: ExampleInstallation, reply: str) -> None:
    """Type the commands that a script prints as the next ones."""
    lines = [line.split() for line in reply.splitlines() if line.startswith("  turno ")]
    assert lines
    for _, *arguments in lines:
        if arguments == ["maintain", "--once"]:  # which begins anew without its secrets
            output, _ = (cleanup := example.start("maintain", "--once")).communicate(timeout=60)
            status = cleanup.returncode
        else:
            ended = CliRunner().invoke(main, arguments, env=example.environment)
            status, output = ended.exit_code, ended.output
        assert status == 0, f"{arguments}: {output}"


@contextmanager
def another_server(folder: Path, template: Path) -> Iterator[Cluster]:
    cluster = Cluster(data=folder / "data", durable=False)
    cluster.files.clone_from(template)
    with cluster:
        yield cluster
    cluster.files.remove()


def enqueue_invoicing(example: ExampleInstallation) -> None:
    for tenant in example.tenants.values():
        orders = example.order_ids(tenant)
        for first in range(0, len(orders), 2):
            example.enqueue({"order_ids": orders[first : first + 2]}, tenant=tenant)


def all_ended(example: ExampleInstallation) -> bool:
    """Whether every job has ended; jobs that wait for a later time are due now."""
    example.make_due()
    return all(
        example.rows("SELECT 1 FROM background_jobs WHERE finished_at IS NULL", tenant=tenant) == []
        for tenant in example.tenants.values()
    )


def stop(pool: subprocess.Popen[str]) -> None:
    pool.send_signal(signal.SIGTERM)
    output, _ = pool.communicate(timeout=60)
    assert pool.returncode == 0, output


def test_backup_under_load_restores_elsewhere_without_loss(tmp_path: Path, postgres_template: Path) -> None:
    backup = tmp_path / "backup"
    with (
        tax_authority() as authority,
        another_server(tmp_path / "second", postgres_template) as second,
        own_example(tmp_path / "first", postgres_template) as (first, example),
    ):
        example.backend = "pool"
        example.extra[URL_VARIABLE] = authority.url
        Host(example.url, example.admin).adopt("erp0001", schema="suc0001", migrations=packaged(ROOT / "migrations"))
        wanted = invoices(example, 6)
        example.rows("UPDATE invoices SET number = number + 1000000")  # out of the way of later numbers
        enqueue_invoicing(example)
        long = example.enqueue({"how": "resume", "text": "sleep_in_sql", "number": 100}, handler=Faulty)
        for invoice in wanted:
            example.enqueue({"invoice_ids": [invoice]}, handler=HurriedSync, run_at=later(example))
        pool = example.start_pool(**QUICK)
        # Half-way it sleeps, until its worker is killed.
        assert wait_until(lambda: counted(example) == 50, within=30)
        with steady_client(example) as client:
            client.wait_for_more()
            before = set(client.accepted.values())
            assert "roles" in done(script(first, "backup.sh", backup))
            client.wait_for_more()
        after = set(client.accepted.values())
        # All that was outside the database happens once more after the backup, and the database forgets it.
        example.make_due()
        assert wait_until(lambda: sum(authority.grants.values()) == len(wanted), within=60)
        pool.kill()
        pool.communicate()
        first.kill()

        reply = done(script(second, "restore.sh", backup))
        assert script(second, "restore.sh", backup).stderr.endswith("  dropdb --maintenance-db=template1 turno\n")
        reconnect(example, second.url_of("turno"))
        restored = {row["id"] for row in example.rows("SELECT id FROM background_jobs WHERE type = 'faulty'")} - {long}
        assert before <= restored <= after
        assert example.rows("SELECT 1 FROM turno.tickets WHERE state = 'running'") != []
        assert example.rows("SELECT 1 FROM turno.tenants WHERE paused_at IS NULL") == []
        refused = script(second, "restore-tenant.sh", backup, "erp0001")
        assert refused.stderr.startswith("erp0001 has adopted a schema of the application's")
        follow(example, reply)
        assert check(example.admin, example.logins) == []
        pool = example.start_pool(**QUICK)
        assert wait_until(lambda: all_ended(example), within=60, every=0.1)
        doctor = CliRunner().invoke(main, ["doctor"], env=example.environment)
        # The roles of the adopted schema were created after the installation, without `turno host add`.
        known = "items of batch_invoicing fail|^PostgreSQL refuses connections of erp_|^[123] to mend$"
        assert [line for line in doctor.output.splitlines() if not re.search(known, line)] == []
        stop(pool)
        assert example.rows("SELECT DISTINCT status FROM background_jobs") == [{"status": "completed"}]
        judges = Checker(example.url, example.tenants.values(), effects=ONCE)
        assert judges.violations(settled=True) == []
        assert counted(example) == 100
        assert (authority.doubled, sum(authority.grants.values())) == ([], len(wanted))
        assert apart(example)
        adopted = read_tenant(example.admin, "erp0001")
        assert adopted is not None
        with handler_session(
            example.logins, HandlerLogin.of(adopted), application="test", kind=psycopg.Connection
        ) as work:
            assert work.execute("UPDATE customers SET name = 'changed'").rowcount == 1


def counted(example: ExampleInstallation) -> int:
    return len(example.rows("SELECT 1 FROM customers WHERE country = 'counted'"))


def later(example: ExampleInstallation) -> Any:
    (row,) = example.rows("SELECT clock_timestamp() + interval '1 hour' AS at")
    return row["at"]


def apart(example: ExampleInstallation) -> bool:
    """Whether a tenant's handlers log in with the password of before, and see no other tenant."""
    session = handler_session(example.logins, example.handler_login(), application="test", kind=psycopg.Connection)
    with session, pytest.raises(psycopg.errors.InsufficientPrivilege):
        session.execute(sql.SQL("SELECT FROM {}").format(sql.Identifier(example.other.schema, "orders")))
    return True


def test_one_tenant_is_restored_while_others_work(tmp_path: Path, postgres_template: Path) -> None:
    backup = tmp_path / "backup"
    with own_example(tmp_path / "server", postgres_template) as (cluster, example):
        example.backend = "pool"
        enqueue_invoicing(example)
        failed = example.enqueue({"how": "permanent"}, handler=Faulty)
        waiting = example.enqueue({"how": "ok"}, handler=Faulty, run_at=later(example))
        webhook = (waiting, example.one.id)
        example.rows("INSERT INTO turno.webhooks (job_id, tenant_id, url) VALUES (%s, %s, 'https://x')", *webhook)
        published = (
            "INSERT INTO background_events (name, data, user_id) VALUES ('order.paid', '{\"order_id\": 7}', 'ana')"
        )
        example.rows(published)
        example.rows(
            "INSERT INTO job_schedules (name, type, payload, priority, user_id, every, zone, spread, missed, next_at)"
            " VALUES ('kept', 'faulty', '{}', 1, 'ana', 3600, 'UTC', 0, 'skip', %s)",
            later(example),
        )
        pool = example.start_pool(**QUICK)
        assert wait_until(lambda: example.job(failed)["status"] == "failed", within=30)
        done(script(cluster, "backup.sh", backup))
        since = example.enqueue({"how": "ok"}, handler=Faulty)
        # A release that subscribes to the event; and the webhook is delivered.
        stop(pool)
        example.registry = "tests.faults.restored_handlers:REGISTRY"
        follow(example, f"  turno maintain --once\n{REPLAY}")
        pool = example.start_pool(**QUICK)
        assert wait_until(lambda: all_ended(example), within=30)
        assert example.rows("SELECT status FROM background_jobs WHERE type = 'ledger'") == [{"status": "completed"}]
        example.rows("DELETE FROM turno.webhooks")
        refused = script(cluster, "restore-tenant.sh", backup, "suc0001")
        assert "suc0001 is at work: turno tenant set suc0001 --paused; nothing was changed" in refused.stderr
        refused = script(cluster, "restore-tenant.sh", backup, "suc0009")
        assert refused.stderr == "there is no active tenant suc0009; nothing was changed\n"
        example.rows("DELETE FROM order_lines")  # the accident
        example.rows("DELETE FROM job_schedules")
        follow(example, "  turno tenant set suc0001 --paused\n")
        still = "SELECT 1 FROM turno.tickets k JOIN turno.tenants n ON n.id = k.tenant_id"
        still += " WHERE n.slug = 'suc0001' AND k.state = 'running'"
        assert wait_until(lambda: example.rows(still) == [], within=30)
        reply = done(script(cluster, "restore-tenant.sh", backup, "suc0001"))
        assert example.rows("SELECT 1 FROM order_lines LIMIT 1") != []
        assert example.rows("SELECT 1 FROM background_jobs WHERE id = %s", since) == []
        assert example.rows("SELECT job_id, tenant_id FROM turno.webhooks") == [
            {"job_id": waiting, "tenant_id": example.one.id}
        ]
        follow(example, reply)
        assert check(example.admin, example.logins) == []
        assert example.rows("SELECT name, tenant_id FROM turno.schedules") == [
            {"name": "kept", "tenant_id": example.one.id}
        ]
        assert example.job(waiting)["status"] == "pending"
        follow(example, REPLAY)  # the job of the event came after the backup
        assert wait_until(lambda: all_ended(example), within=60)
        assert example.job(waiting)["status"] == "completed"
        assert example.rows("SELECT status FROM background_jobs WHERE type = 'ledger'") == [{"status": "completed"}]
        assert example.rows("SELECT job_id FROM turno.dead_letters") == [{"job_id": failed}]
        stop(pool)
        assert Checker(example.url, example.tenants.values(), effects=ONCE).violations(settled=True) == []
        assert apart(example)
