"""Each capability can be switched off, deleted and restored. One more capability is one more entry of ROWS."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql

from tests.web_in_process import web_of
from turno.capability import Capability, installed, load
from turno.commands.main import all_commands

if TYPE_CHECKING:
    from tests.installation import ExampleInstallation

ROOT = Path(__file__).resolve().parents[2]
# Statements that fill the tables of a capability in one tenant's schema.
ROWS = {
    "adoption": "INSERT INTO turno.adoptions (tenant_id, table_owner, rights)"
    " SELECT id, 'erp', 'write' FROM turno.tenants WHERE schema = current_schema()",
    "alerts": "INSERT INTO turno.alert_states (key, kind, sentence, command, rank)"
    " VALUES (gen_random_uuid(), 'failures', 'jobs failed', 'turno status', 0)",
    "effects": "INSERT INTO external_effects (key, type, outside_key, state, job_id, attempt, token, calls)"
    " VALUES ('cae:7', 'faulty', gen_random_uuid(), 'intended', gen_random_uuid(), 1, gen_random_uuid(), 1);"
    "INSERT INTO external_doubt DEFAULT VALUES",
    "events": "INSERT INTO background_events (name, data, user_id) VALUES ('order.paid', '{}', 'ana')",
    "files": "INSERT INTO job_files (name, media_type, size, piece_bytes, user_id, uploaded, expires_at)"
    " VALUES ('orders.csv', 'text/csv', 3, 1024, 'ana', true, now() + interval '1 hour')",
    "parts": "INSERT INTO background_job_parts VALUES (gen_random_uuid(), 1, gen_random_uuid(), false)",
    # It has no tables; the row refers to its backend.
    "rabbitmq": "INSERT INTO turno.settings (name, value) VALUES ('queue_canary_backend', 'rabbitmq')"
    " ON CONFLICT DO NOTHING",
    "admin": "SELECT",  # it has neither tables nor views
    "pages": "SELECT",  # it has neither tables nor views
    "audit": "INSERT INTO turno.operator_acts (action, subject) VALUES ('host add', 'erp')",
    "schedules": "INSERT INTO job_schedules"
    " (name, type, payload, priority, user_id, every, zone, spread, missed, next_at)"
    " VALUES ('nightly', 'faulty', '{\"how\": \"ok\"}', 1, 'ana', 3600, 'UTC', 0, 'once', now() + interval '1 hour');"
    "INSERT INTO turno.schedule_templates"
    " (name, type, payload, priority, user_id, every, zone, spread, missed)"
    " VALUES ('nightly', 'faulty', '{\"how\": \"ok\"}', 1, 'ana', 3600, 'UTC', 0, 'once') ON CONFLICT DO NOTHING;"
    "INSERT INTO turno.template_zones SELECT id, 'UTC' FROM turno.tenants WHERE schema = current_schema();"
    "INSERT INTO turno.template_runs SELECT gen_random_uuid(), n.id, t.id, now()"
    " FROM turno.schedule_templates t CROSS JOIN turno.tenants n WHERE n.schema = current_schema()",
    "streams": "INSERT INTO turno.stream_tickets VALUES"
    " (sha256(random()::text::bytea), 'suc0001', 'ana', false, NULL, 0, 1, 'infinity')",
    "sql_api": "SELECT",  # it has functions alone
    "tags": "INSERT INTO job_tags VALUES (gen_random_uuid(), 'march')",
    "webhooks": "INSERT INTO turno.webhook_addresses (tenant_id, url)"
    " SELECT id, 'https://hooks.example/' FROM turno.tenants WHERE schema = current_schema();"
    "INSERT INTO turno.webhooks (job_id, tenant_id, url)"
    " SELECT gen_random_uuid(), id, 'https://hooks.example/' FROM turno.tenants WHERE schema = current_schema()",
    "statistics": "SELECT",  # it has a view alone
    "tracing": "SELECT",  # it has no tables
}
MIGRATE = ("db", "migrate", "--yes")
INSTALL = (
    MIGRATE,
    *(("tenant", "add", slug, "--company", "acme", "--name", "Acme") for slug in ("suc0001", "suc0002")),
)
A_JOB = (
    ("job", "submit", "faulty", "--tenant", "suc0001", "--user", "ana", "--payload", '{"how": "ok"}'),
    ("work", "--once"),
    ("job", "list", "--tenant", "suc0001", "--json"),
)
CHECK = (("db", "check"), MIGRATE)
AS_DECLARED = "every right is as the matrix says\n"
END_OF_COMMAND = "\0"
COMMANDS_IN_FORKS = """
import json, os, sys
from turno.commands import db, jobs, tenant, work
from turno.commands.main import main

for arguments in json.loads(sys.argv[1]):
    child = os.fork()
    if child == 0 and arguments[0] in ("work", "maintain"):  # its program starts again, without secrets
        os.execl(sys.executable, sys.executable, "-m", "turno.commands.main", *arguments)
    if child == 0:
        main(arguments, prog_name="turno")
    _, status = os.waitpid(child, 0)
    print(end="\\0", flush=True)
    if status:
        sys.exit(f"turno {arguments}: wait status {status}")
"""
# Tables that keep the rows of removed tenants.
KEPT = {"turno.operator_audit"}
TABLES = """
SELECT c.oid::regclass::text, c.relnamespace::regnamespace::text,
       EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id'), c.relkind = 'v',
       (SELECT count(*) FROM aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) a
        WHERE a.grantee <> c.relowner)
FROM pg_class c WHERE obj_description(c.oid, 'pg_class') = %s ORDER BY 1
"""
capabilities = pytest.mark.parametrize("capability", installed(), ids=lambda capability: capability.name)
# Half of the capabilities on the embedded server and half on the oldest one: each run takes half a minute.
SERVERS = [pytest.param("cluster"), pytest.param("postgres15", marks=pytest.mark.postgres15)]
on_a_server = pytest.mark.parametrize(
    ("capability", "each_new_database"),
    [
        pytest.param(capability, *server.values, marks=server.marks, id=f"{capability.name}-{server.values[0]}")
        for capability, server in zip(installed(), cycle(SERVERS), strict=False)
    ],
    indirect=["each_new_database"],
)


@dataclass
class Checkout:
    """A copy of the library that runs on a database, with or without the folder of a capability."""

    url: str
    tree: Path
    capability: Capability

    @property
    def folder(self) -> Path:
        return self.tree / "turno" / "capabilities" / self.capability.name

    def delete(self) -> None:
        shutil.rmtree(self.folder)

    def restore(self) -> None:
        shutil.copytree(ROOT / "turno" / "capabilities" / self.capability.name, self.folder)

    def turno(self, *commands: tuple[str, ...]) -> list[str]:
        """Run commands in forks of one process that has imported the library; return the output of each."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("TURNO_", "PYTEST_"))}
        environment |= {
            "DATABASE_URL": self.url,
            "TURNO_MASTER_KEY": "the tests' own master key, 32 or more",
            "TURNO_JWT_KEY": "the tests' own token key, long enough",
            "TURNO_HANDLERS": "tests.misbehaving_handlers:REGISTRY",
            "TURNO_DOTENV": "read",
            "PYTHONPATH": os.pathsep.join((str(self.tree), str(ROOT))),
        }
        done = subprocess.run(
            [sys.executable, "-c", COMMANDS_IN_FORKS, json.dumps(commands)],
            env=environment,
            cwd=self.tree,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.split(END_OF_COMMAND)[:-1]

    def works(self, *before: tuple[str, ...]) -> None:
        """Run `before`, then a job and the maintenance tasks; every right is as declared, and no migration pending."""
        *_, jobs, _, check, migrate = self.turno(*before, *A_JOB, ("maintain", "--once", "--json"), *CHECK)
        assert [job["status"] for job in json.loads(jobs)] == ["completed"]
        assert check == AS_DECLARED
        assert migrate.endswith("no migration is pending\n")


@pytest.fixture
def checkout(each_new_database: str, tmp_path: Path, capability: Capability) -> Checkout:
    shutil.copytree(ROOT / "turno", tmp_path / "turno")
    return Checkout(each_new_database, tmp_path, capability)


def test_each_capability_has_rows_here() -> None:
    assert ROWS.keys() == {capability.name for capability in installed()}


@capabilities
def test_disabled_it_has_no_routes_pages_commands_and_tasks(
    capability: Capability, example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offered() -> tuple[set[str], set[str], set[str]]:
        with web_of(example) as app:
            blueprints = {rule.endpoint.rpartition(".")[0] for rule in app.url_map.iter_rules()}
        return blueprints, set(all_commands()), set(example.sweep())

    on = offered()
    example.extra["TURNO_CAPABILITIES"] = f"all-but-{capability.name}"
    monkeypatch.setenv("TURNO_CAPABILITIES", f"all-but-{capability.name}")
    off = offered()
    own = {f"turno.{load(path).name}" for path in capability.routes}
    assert [before - after for before, after in zip(on, off, strict=True)] == [
        own,
        set(capability.commands),
        {task.name for task in capability.tasks},
    ]
    left = example.admin.execute(TABLES, [f"turno/{capability.name}"]).fetchall()
    assert bool(left) == bool(capability.control.relations or capability.tenant.relations)


@pytest.mark.deep
@on_a_server
def test_a_checkout_without_its_folder_works_on_a_new_database(checkout: Checkout) -> None:
    checkout.delete()
    checkout.works(*INSTALL)
    with psycopg.connect(checkout.url) as admin:
        assert admin.execute(TABLES, [f"turno/{checkout.capability.name}"]).fetchall() == []


@pytest.mark.deep
@on_a_server
def test_database_survives_removal_of_the_folder_and_return(checkout: Checkout) -> None:
    checkout.turno(*INSTALL)
    with psycopg.connect(checkout.url, autocommit=True) as admin:
        fill(admin, checkout.capability.name, "suc0001", "suc0002")
        rights = tables(admin, checkout)
        capability = checkout.capability
        declared = [*capability.control.relations.values(), *capability.tenant.relations.values()]
        assert any(count for *_, count in rights) == any(declared)
        checkout.delete()
        checkout.turno(MIGRATE)
        assert {count for *_, count in tables(admin, checkout)} <= {0}
        checkout.works()
        checkout.turno(("tenant", "remove", "suc0002", "--yes"))
        for name, _, shared, view, _ in tables(admin, checkout):
            if shared and not view and name not in KEPT:
                (left,) = admin.execute(sql.SQL("SELECT array_agg(DISTINCT tenant_id) FROM {}").format(sql.SQL(name)))
                assert left == ([1],), name
        # A job goes with its rows in the tables of the capability.
        admin.execute("SET search_path = " + schema_of(admin, "suc0001"))
        admin.execute("DELETE FROM background_jobs")
        checkout.restore()
        checkout.turno(MIGRATE)
        now = [row for row in rights if row[1] == "turno" or row[1] == schema_of(admin, "suc0001")]
        assert tables(admin, checkout) == now
        assert checkout.turno(*CHECK)[0] == AS_DECLARED


def tables(admin: psycopg.Connection[Any], checkout: Checkout) -> list[tuple[Any, ...]]:
    admin.execute("SET search_path = ''")
    return admin.execute(TABLES, [f"turno/{checkout.capability.name}"]).fetchall()


def schema_of(admin: psycopg.Connection[Any], slug: str) -> str:
    (name,) = admin.execute("SELECT schema FROM turno.tenants WHERE slug = %s", [slug]).fetchone() or ("",)
    return str(name)


def fill(admin: psycopg.Connection[Any], capability: str, *slugs: str) -> None:
    for slug in slugs:
        admin.execute(f"SET search_path = {schema_of(admin, slug)}")
        admin.execute(ROWS[capability].encode())
