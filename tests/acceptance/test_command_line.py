"""Every command against a real database that the commands themselves have made."""

from __future__ import annotations

import http.client
import json
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql

from cli.demo.folder import without_password
from cli.demo.web import DemoWeb
from cli.servers.free_port import free_port
from tests.acceptance.turno_process import bare_environment, turno
from turno.client import Client, Refused
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cli.servers.embedded_postgres import Cluster

ROOT = Path(__file__).resolve().parents[2]
KEY = "the command line's tests' own key, long enough"

# The remains of an attempt that parked its job for an effect in doubt.
INTEND = """
INSERT INTO {}.external_effects (key, type, outside_key, state, job_id, attempt, token, calls)
SELECT 'cae:7', type, gen_random_uuid(), 'intended', id, 1, gen_random_uuid(), 1 FROM {}.background_jobs WHERE id = %s
"""
PARK = """
WITH parked AS (UPDATE {}.background_jobs SET run_at = 'infinity', in_doubt = 'cae:7' WHERE id = %s RETURNING id),
     ticket AS (UPDATE turno.tickets SET run_at = 'infinity', state = 'review' FROM parked WHERE job_id = parked.id)
SELECT id FROM parked
"""


@dataclass
class Installation:
    """A database that `turno` has provisioned, and `turno` in its environment."""

    url: str
    folder: Path
    environment: dict[str, str]

    def run(self, *arguments: str, answer: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        return turno(*arguments, environment=self.environment | variables, folder=self.folder, answer=answer)

    def succeed(self, *arguments: str, **variables: str) -> str:
        done = self.run(*arguments, **variables)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def refuse(self, *arguments: str, **variables: str) -> str:
        done = self.run(*arguments, **variables)
        assert done.returncode == 1, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr

    def query(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as admin:
            cursor = admin.execute(statement.encode(), parameters)
            return cursor.fetchall() if cursor.description else []


@pytest.fixture(scope="module")
def installed(module_database: str, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    folder = tmp_path_factory.mktemp("installed")
    environment = bare_environment(
        DATABASE_URL=without_password(module_database),
        TURNO_ADMIN_DATABASE_URL=module_database,
        TURNO_MASTER_KEY=KEY,
        TURNO_JWT_KEY=KEY,
        TURNO_RUN_FOLDER=str(folder / "slots"),
    )
    installation = Installation(module_database, folder, environment)
    # Another test's role in the same cluster is an application's role: `migrate` would ask.
    assert "control schema got 0001" in installation.succeed("db", "migrate", "--yes")
    installation.succeed("company", "add", "northwind", "--name", "Northwind Traders")
    installation.succeed("tenant", "add", "suc0001", "--company", "northwind")
    installation.succeed("tenant", "add", "suc0002", "--company", "northwind")
    return installation


@pytest.fixture(scope="module")
def web(installed: Installation) -> Iterator[DemoWeb]:
    port = free_port()
    web = DemoWeb(
        port=port,
        environment=installed.environment
        | {"TURNO_WEB_BIND": f"127.0.0.1:{port}", "TURNO_SHUTDOWN_GRACE_SECONDS": "2"}
        | {
            "TURNO_DEAD_AFTER_SECONDS": "3600"
        },  # the web maintains where no other process does: `cleanup` has to find a row
        log=installed.folder / "web.log",
    )
    web.start()
    yield web
    web.stop()
    assert not web.running


def client(installed: Installation, web: DemoWeb, tenant: str = "suc0001") -> Client:
    token = installed.succeed("token", "--user", "ana", "--tenant", tenant).strip()
    return Client(web.url, tenant=tenant, token=token, patience=0)


def test_migrated_installation_has_no_plan_and_no_findings(installed: Installation) -> None:
    registered, again = installed.succeed("db", "migrate").splitlines()
    assert " job types registered: " in registered
    assert "batch_invoicing" in registered
    assert again == "no migration is pending"
    broken = installed.run("db", "migrate", TURNO_HANDLERS="handlers:nowhere")
    assert broken.returncode == 1
    assert "no job types were registered" in broken.stderr, broken.stderr
    assert broken.stdout == "no migration is pending\n"
    assert "suc0002" in installed.succeed("db", "status")
    assert "every right is as the matrix says" in installed.succeed("db", "check")


def steps() -> list[str]:
    """Return the numbers of the application's migrations."""
    return sorted({path.name[:4] for path in Path("migrations").glob("0*.sql")})


def test_migrations_go_back_and_come_again(installed: Installation) -> None:
    before, newest = steps()[-2:]
    undo = ("db", "rollback", "--steps", "1")
    assert f"suc0001 would lose {newest}" in installed.succeed(*undo, "--dry-run")
    assert "no migration is pending" in installed.succeed("db", "migrate", "--dry-run")
    back = installed.succeed(*undo, "--tenant", "suc0002")
    assert f"1/1 suc0002 lost {newest}" in back
    behind = installed.run("db", "status")
    assert behind.returncode == 1
    standings = [line.split()[2:5] for line in behind.stdout.splitlines() if " application " in line]
    assert standings == [["application", newest, "nothing"], ["application", before, newest]]
    assert f"suc0002 would get {newest}" in installed.succeed("db", "migrate", "--dry-run")
    assert f"1/1 suc0002 got {newest}" in installed.succeed("db", "migrate", "--canary", "suc0002", "--jobs", "2")


def test_migrations_do_not_go_back_under_a_living_worker(installed: Installation) -> None:
    undo = ("db", "rollback", "--steps", "1", "--tenant", "suc0002")
    worker = "INSERT INTO turno.workers (host, pid, backend, alive_at) VALUES (%s, 77, 'pool', now() - %s::interval)"
    installed.query(worker, "far", "0")
    installed.query(worker, "lost", "1 hour")
    try:
        assert "workers are alive (far 77)" in installed.refuse(*undo)
        assert f"1/1 suc0002 lost {steps()[-1]}" in installed.succeed(*undo, "--yes")
    finally:
        installed.query("DELETE FROM turno.workers")
        installed.succeed("db", "migrate")


def test_a_right_too_many_is_found(installed: Installation) -> None:
    installed.query("GRANT SELECT ON turno.tickets TO PUBLIC")
    result = installed.run("db", "check")
    assert result.returncode == 1
    assert "tickets" in result.stdout
    installed.succeed("db", "migrate", "--redefine")
    installed.succeed("db", "check")


def test_tenants_are_added_listed_and_removed(installed: Installation) -> None:
    added = installed.succeed("tenant", "add", "new-1", "--company", "other", "--name", "Another company")
    assert added.startswith("tenant new-1 of other")
    slugs = [row["slug"] for row in json.loads(installed.succeed("tenant", "list", "--json"))]
    assert slugs == ["new-1", "suc0001", "suc0002"]
    kept = installed.run("tenant", "remove", "new-1", answer="n\n")
    assert kept.returncode == 1
    assert "new-1" in installed.succeed("tenant", "list")
    installed.succeed("tenant", "remove", "new-1", "--yes")
    assert "new-1" not in installed.succeed("tenant", "list")


def test_a_changed_login_is_reset(installed: Installation, web: DemoWeb) -> None:
    ((role,),) = installed.query("SELECT handler_role FROM turno.tenants WHERE slug = 'suc0002'")
    with psycopg.connect(installed.url, autocommit=True) as admin:
        admin.execute(sql.SQL("ALTER ROLE {} PASSWORD 'changed'").format(sql.Identifier(role)))
    assert "epoch 1" in installed.succeed("tenant", "reset-login", "suc0002")
    assert installed.succeed("webhook", "secret", "--tenant", "suc0002").startswith("whsec_")
    assert "epoch 1" in installed.succeed("company", "reset-login", "northwind")
    asking = client(installed, web, "suc0002")
    asking.wait(asking.submit("batch_invoicing", {"order_ids": [1]}), timeout=60)
    assert "1/1, 1 failed" in installed.succeed("job", "list", "--tenant", "suc0002")


def test_revoked_tokens_are_refused(installed: Installation, web: DemoWeb) -> None:
    asking = client(installed, web)
    job = asking.submit("batch_invoicing", {"order_ids": [1]})
    installed.succeed("tenant", "revoke-tokens", "suc0001")

    def refused() -> bool:
        try:
            asking.get(job)
        except Refused as error:
            return "revoked" in error.detail
        return False

    assert wait_until(refused, within=30)  # the web caches a tenant for two seconds
    # Half a minute later, in which the issuer's clock may have been ahead.
    installed.query("UPDATE turno.tenants SET tokens_valid_from = now() - interval '1 minute' WHERE slug = 'suc0001'")
    assert wait_until(lambda: not refused(), within=30)


def test_jobs_are_listed_shown_retried_and_cancelled(installed: Installation, web: DemoWeb) -> None:
    asking = client(installed, web, "suc0002")
    job_id = asking.wait(asking.submit("batch_invoicing", {"order_ids": [7]}), timeout=60).id
    shown = installed.succeed("job", "show", "--tenant", "suc0002", job_id)
    assert "There is no point of sale 1" in shown
    reply = json.loads(installed.succeed("job", "show", "--tenant", "suc0002", "--json", job_id))
    assert [item["key"] for item in reply["failed_items"]] == ["7"]
    assert len(reply["attempts"]) == 1
    assert "outcome       nothing_done" in shown
    assert reply["payload"]["order_ids"] == [7]
    edited = installed.succeed("job", "rerun", "--tenant", "suc0002", "--payload", '{"order_ids": [8]}', job_id).strip()
    rerun = json.loads(installed.succeed("job", "show", "--tenant", "suc0002", "--json", edited))
    assert (rerun["parent_id"], rerun["payload"]["order_ids"]) == (job_id, [8])
    assert "does not take" in installed.refuse("job", "rerun", "--tenant", "suc0002", "--payload", "{}", job_id)
    assert f"continues {job_id}" in installed.succeed("job", "retry", "--tenant", "suc0002", job_id)
    assert "already" in installed.succeed("job", "retry", "--tenant", "suc0002", job_id)
    assert "has ended already" in installed.refuse("job", "cancel", "--tenant", "suc0002", job_id)
    assert "has no job" in installed.refuse("job", "show", "--tenant", "suc0001", job_id)
    assert "no active tenant" in installed.refuse("job", "list", "--tenant", "nobody")
    listed = json.loads(
        installed.succeed("job", "list", "--tenant", "suc0002", "--json", "--status", "completed", "--user", "ana")
    )
    assert job_id in [row["id"] for row in listed]


def scheduled_job(installed: Installation, web: DemoWeb) -> str:
    """A job of suc0001's for tomorrow."""
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    return client(installed, web).submit("batch_invoicing", {"order_ids": [1]}, run_at=tomorrow).id


def test_a_scheduled_job_is_cancelled(installed: Installation, web: DemoWeb) -> None:
    job_id = scheduled_job(installed, web)
    assert "scheduled" in installed.succeed("job", "show", "--tenant", "suc0001", job_id)
    assert "is cancelled" in installed.succeed("job", "cancel", "--tenant", "suc0001", job_id)
    assert "reason        cancelled by an operator" in installed.succeed("job", "show", "--tenant", "suc0001", job_id)


def test_an_outside_effect_in_doubt_is_settled(installed: Installation, web: DemoWeb) -> None:
    job_id = scheduled_job(installed, web)
    [(schema,)] = installed.query("SELECT schema FROM turno.tenants WHERE slug = 'suc0001'")
    for statement in (INTEND, PARK):
        installed.query(statement.replace("{}", schema), job_id)
    tenant = ("--tenant", "suc0001")
    assert "needs review" in installed.succeed("job", "list", *tenant, "--needs-review")
    assert "cae:7" in installed.succeed("effect", "list", *tenant, job_id)
    assert installed.run("effect", "settle", *tenant, job_id, "cae:7").returncode == 2
    assert installed.run("effect", "settle", *tenant, "--done", "{", job_id, "cae:7").returncode == 2
    assert "no outside effect" in installed.refuse("effect", "settle", *tenant, "--absent", job_id, "cae:8")
    output = installed.succeed("effect", "settle", *tenant, "--done", '{"cae": 7}', "--by", "eva", job_id, "cae:7")
    assert "settled as done" in output
    assert "settled before" in installed.refuse("effect", "settle", *tenant, "--absent", job_id, "cae:7")
    (effect,) = json.loads(installed.succeed("effect", "list", *tenant, "--json", job_id))
    assert (effect["state"], effect["result"], effect["settled_by"]) == ("done", {"cae": 7}, "eva")
    # It runs on: a worker may have ended it by now.
    assert "needs review" not in installed.succeed("job", "show", *tenant, job_id)


def test_restore_leaves_effects_in_doubt_until_repaired(installed: Installation) -> None:
    [(schema,)] = installed.query("SELECT schema FROM turno.tenants WHERE slug = 'suc0002'")
    doubts = f"SELECT count(*) FROM {schema}.external_doubt"  # noqa: S608 - read just before
    assert installed.run("effect", "doubt").returncode == 2
    assert "tenant suc0002: outside effects" in installed.succeed("effect", "doubt", "suc0002")
    assert installed.succeed("effect", "doubt", "--all").count("looked up first") == 2
    assert installed.query(doubts) == [(1,)]
    installed.succeed("effect", "doubt", "--all", "--over")
    assert installed.query(doubts) == [(0,)]
    installed.refuse("effect", "doubt", "nobody")


def test_cleanup_counts_every_pass(installed: Installation) -> None:
    counts = json.loads(installed.succeed("maintain", "--once", "--json"))
    changing = {
        "counted",
        "rescued",
        "scheduled",
        "schedules repaired",
        "events purged",
        "files purged",
        "promoted",
        "repaired",
        "expired",
        "purged",
        "pruned",
        "moved",
    }
    assert set(counts) == changing | {"deliveries", "offered", "unserved"}
    lost = "INSERT INTO turno.workers (backend, host, pid, alive_at) VALUES ('exec', 'x', 1, now() - interval '10 min')"
    installed.query(lost)
    assert "WOULD BE" in installed.succeed("maintain", "--once", "--dry-run")
    assert installed.query("SELECT count(*) FROM turno.workers WHERE host = 'x'") == [(1,)]
    installed.succeed("maintain", "--once", TURNO_DEAD_AFTER_SECONDS="1", TURNO_HEARTBEAT_SECONDS="0.5")
    assert installed.query("SELECT count(*) FROM turno.workers WHERE host = 'x'") == [(0,)]


def test_a_database_that_is_away_is_named(installed: Installation, tmp_path: Path) -> None:
    away = f"host={tmp_path} port=5432 dbname=turno"
    for command in (
        (
            "db",
            "migrate",
        ),
        ("tenant", "list"),
        ("maintain", "--once"),
        ("job", "list", "--tenant", "x"),
        ("work", "--once"),
    ):
        reply = installed.refuse(*command, DATABASE_URL=away, TURNO_ADMIN_DATABASE_URL="")
        assert reply.startswith(f"cannot reach PostgreSQL at {tmp_path}:5432/turno")


def readiness(web: DemoWeb) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=60)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_web_outlives_its_database(web: DemoWeb, cluster: Cluster) -> None:
    cluster.restart_immediate()
    assert readiness(web) == http.HTTPStatus.OK
    cluster.kill()
    try:
        assert readiness(web) == http.HTTPStatus.SERVICE_UNAVAILABLE
    finally:
        cluster.start()
    assert wait_until(lambda: readiness(web) == http.HTTPStatus.OK, within=10)


def test_missing_and_wrong_settings_are_named(installed: Installation, database: str) -> None:
    assert "TURNO_MASTER_KEY is not set" in installed.refuse("db", "migrate", TURNO_MASTER_KEY="")
    assert "32 characters" in installed.refuse("tenant", "list", TURNO_MASTER_KEY="short")
    assert "not a URL" in installed.refuse("tenant", "list", DATABASE_URL="nonsense")
    assert "TURNO_WEB_THREADS='many'" in installed.refuse("serve", TURNO_WEB_THREADS="many")
    token = ("token", "--user", "a", "--role", "operator")
    assert "is a public key" in installed.refuse(*token, TURNO_JWT_KEY="-----BEGIN PUBLIC KEY-----")
    empty = installed.refuse("company", "add", "x", DATABASE_URL=database, TURNO_ADMIN_DATABASE_URL=database)
    assert "run `turno db migrate`" in empty


def test_submit_with_key_runs_once_and_names_errors(installed: Installation) -> None:
    submit = (
        "job",
        "submit",
        "batch_invoicing",
        "--tenant",
        "suc0001",
        "--user",
        "cron",
        "--run-at",
        (datetime.now(UTC) + timedelta(days=30)).isoformat(),
    )
    payload = ("--payload", '{"order_ids": [1, 2]}')
    first = installed.succeed(*submit, *payload, "--key", "night-1").strip()
    assert installed.succeed(*submit, *payload, "--key", "night-1").strip() == first
    assert first in installed.succeed("job", "list", "--tenant", "suc0001", "--user", "cron")
    assert f"by job {first}; choose a new key" in installed.refuse(
        *submit, "--payload", '{"order_ids": [3]}', "--key", "night-1"
    )
    assert "payload.order_ids: is missing" in installed.refuse(*submit)
    assert "UnknownJobType" not in installed.refuse("job", "submit", "dance", "--tenant", "suc0001")
    for wrong, message in (
        (("--payload", "{"), "'--payload': is not valid JSON"),
        (("--key", "a b"), "'--key': 'a b': expected"),
        (("--run-at", "2030-01-31T09:00:00"), "'--run-at': '2030-01-31T09:00:00' must be a time with its zone"),
    ):
        reply = installed.run(*submit, *wrong)
        assert (reply.returncode, message in reply.stderr) == (2, True), reply.stderr
    too_late = [*submit[:-1], "2100-01-01T00:00:00-03:00", *payload]
    assert "--run-at must be at most one year ahead" in installed.refuse(*too_late)
    in_ten_minutes = installed.succeed(*submit[:-1], "+10m", *payload).strip()
    shown = json.loads(installed.succeed("job", "show", "--tenant", "suc0001", "--json", in_ten_minutes))
    job = shown.get("job", shown)
    delay = datetime.fromisoformat(job["run_at"]) - datetime.fromisoformat(job["created_at"])
    assert timedelta(minutes=9) < delay <= timedelta(minutes=10)
    installed.succeed("job", "cancel", "--tenant", "suc0001", in_ten_minutes)
    installed.succeed("job", "cancel", "--tenant", "suc0001", first)
