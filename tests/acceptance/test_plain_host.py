"""A running application adopts Turno by docs/adopting.md, enqueues from its own code, and uninstalls it."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from cli.servers.system_packages import MODULES, NODE, PHP, unpack
from tests.acceptance.turno_process import OURS
from tests.installation import ROOT
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = ROOT / "examples"
SELL = """
import sys
from app import create_app
client = create_app().test_client()
print(client.post(f"/{sys.argv[1]}/sales", json={"month": "2026-06", "total": sys.argv[2]}).get_json()["job"])
"""
STANDING = """
SELECT n.nspname, c.relname, pg_get_userbyid(c.relowner),
       coalesce(c.relacl, acldefault(CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", c.relowner))::text
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname ~ '^suc' ORDER BY 1, 2
"""


@dataclass(frozen=True)
class PlainHost:
    """The example in a separate folder, with its database and its database's role."""

    folder: Path
    url: str
    role: str
    admin: psycopg.Connection[Any]

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in (*OURS, "TURNO_HANDLERS")}
        own = {"DATABASE_URL": self.url, "TURNO_MASTER_KEY": "the plain host's own key, 32 or more letters"}
        # Only turno and the application: nothing of this checkout's own application is there.
        return kept | own | {
            "ERP_DATABASE_URL": make_conninfo(self.url, user=self.role, password="x"),
            "QUEUE_BACKEND": "pool",
            "TURNO_MAX_CHILDREN": "1",
            "PYTHONPATH": str(self.folder / "installed"),
        }  # fmt: skip

    def run(self, *command: str, **variables: str) -> str:
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment | variables, capture_output=True, text=True, check=False,
            timeout=90,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def turno(self, *arguments: str) -> str:
        return self.run(sys.executable, "-m", "turno.commands.main", *arguments)

    def sell(self, branch: str, total: str) -> str:
        return self.run(sys.executable, "-c", SELL, branch, total).strip()

    def standing(self) -> list[tuple[Any, ...]]:
        return self.admin.execute(STANDING).fetchall()


@pytest.fixture
def host(each_new_database: str, tmp_path: Path) -> Iterator[PlainHost]:
    folder = tmp_path / "erp"
    shutil.copytree(EXAMPLES / "plain_host", folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "installed").mkdir()
    (folder / "installed" / "turno").symlink_to(ROOT / "turno")
    role = f"erp_{secrets.token_hex(4)}"
    with psycopg.connect(each_new_database, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'x'").format(sql.Identifier(role)))
        admin.execute(sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(
            sql.Identifier(admin.info.dbname), sql.Identifier(role)))  # fmt: skip
        admin.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
        admin.execute((folder / "schema.sql").read_text().encode())
        admin.execute("RESET ROLE")
        yield PlainHost(folder, each_new_database, role, admin)
        admin.execute("DROP SCHEMA suc0001, suc0002 CASCADE")
        admin.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(role)))


@pytest.fixture
def adopted(host: PlainHost) -> PlainHost:
    host.turno("db", "migrate", "--yes")
    host.turno("schema", "adopt", "--from", "tenants.csv")
    return host


def test_the_page_s_commands_and_files_lead_to_the_first_job(host: PlainHost) -> None:
    """The page of an adopter, literally, in a folder that has the application alone."""
    page = (ROOT / "docs" / "adopting.md").read_text(encoding="utf-8")
    files = dict(re.findall(r"<!-- file: examples/plain_host/(\S+) -->\n```\w+\n(.*?)```", page, re.DOTALL))
    assert set(files) == {"jobs/monthly_report.py", "tenants.csv", "app.py"}
    pip, init, migrate, add, pool, *_ = re.findall(r"^\$ (.*)$", page, re.MULTILINE)
    assert (pip, pool) == ("pip install ../turno", "QUEUE_BACKEND=pool turno work")
    shutil.rmtree(host.folder / "jobs")
    for name in ("app.py", "tenants.csv", "pyproject.toml"):
        (host.folder / name).unlink()
    before = host.standing()
    url = init.split()[-1]
    assert (init, url) == (f"turno init --database-url {url}", "postgresql://admin@localhost/erp")
    host.turno(*init.replace(url, host.url).split()[1:])
    (host.folder / "tests" / "test_monthly_report.py").unlink()
    for name, text in files.items():
        (host.folder / name).write_text(text, encoding="utf-8")
    migrated = host.turno(*migrate.split()[1:], "--yes")
    assert "1 job type registered: monthly_report" in migrated
    added = host.turno(*add.split()[1:])
    assert added.splitlines()[-1] in page
    host.sell("suc0001", "100")
    host.sell("suc0001", "42.50")
    host.sell("suc0002", "7")
    with pool_of(host):
        totals = "SELECT (SELECT total FROM suc0001.reports), (SELECT total FROM suc0002.reports)"
        assert wait_until(lambda: _text(host.admin.execute(totals).fetchone()) == ("142.50", "7"), within=60)
    host.turno("db", "uninstall", "--yes")
    assert host.standing() == before
    assert host.admin.execute("SELECT FROM pg_namespace WHERE nspname = 'turno' OR nspname ~ '^t_'").rowcount == 0


def _text(row: Any) -> tuple[str, ...]:
    return tuple(str(value) for value in row)


class pool_of:  # noqa: N801 - read as the words `with pool of`
    """A resident worker for the length of a block."""

    def __init__(self, host: PlainHost) -> None:
        self._host = host

    def __enter__(self) -> None:
        command = [sys.executable, "-m", "turno.commands.main", "work"]
        self._process = subprocess.Popen(
            command, cwd=self._host.folder, env=self._host.environment, stderr=subprocess.DEVNULL
        )

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)


@pytest.fixture(scope="session")
def php() -> Path:
    return PHP.require()


@pytest.mark.deep
def test_php_enqueues_and_follows_a_job(adopted: PlainHost, php: Path) -> None:
    script = str(EXAMPLES / "php" / "enqueue.php")
    server = conninfo_to_dict(adopted.url)
    dsn = f"pgsql:host={server['host']};port={server.get('port', 5432)};dbname={server['dbname']}"
    first = adopted.run(str(php), script, dsn, adopted.role, "x").strip()
    assert re.fullmatch("[0-9a-f-]{36}", first)
    assert adopted.run(str(php), script, dsn, adopted.role, "x").strip() == first
    (schema,) = adopted.admin.execute("SELECT schema FROM turno.tenants WHERE slug = 'suc0001'").fetchone() or ("",)
    jobs = sql.SQL("SELECT id::text, type, payload, idempotency_key FROM {}").format(
        sql.Identifier(schema, "background_jobs")
    )
    assert adopted.admin.execute(jobs).fetchall() == [(first, "monthly_report", {"month": "2026-06"}, "report-2026-06")]
    follow = (str(php), str(EXAMPLES / "php" / "follow.php"), dsn, adopted.role, "x", "suc0001")
    with pool_of(adopted):
        assert adopted.run(*follow, first) == "completed {}\n"
    unknown = "00000000-0000-0000-0000-000000000000"
    assert adopted.run(*follow, unknown) == f"The tenant has no job {unknown}.\n"


@pytest.fixture(scope="session")
def node() -> Path:
    return NODE.require()


@pytest.fixture(scope="session")
def library_pg(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with Node's library `pg`."""
    folder = tmp_path_factory.mktemp("node") / "debian"
    unpack(["node-pg", "node-split2"], folder)
    return folder / MODULES


@pytest.mark.deep
def test_node_enqueues_and_follows_a_job(adopted: PlainHost, node: Path, library_pg: Path) -> None:
    server = {name: str(value) for name, value in conninfo_to_dict(adopted.url).items()}
    variables = {
        "NODE_PATH": str(library_pg),
        "PGHOST": server["host"],
        "PGPORT": server.get("port", "5432"),
        "PGDATABASE": server["dbname"],
        "PGUSER": adopted.role,
        "PGPASSWORD": "x",
    }

    def run(program: str, *arguments: str) -> str:
        return adopted.run(str(node), str(EXAMPLES / "node" / program), *arguments, **variables)

    first = run("enqueue.js").strip()
    assert run("enqueue.js").strip() == first
    assert adopted.admin.execute("SELECT count(*) FROM suc0001.sales").fetchone() == (2,)
    with pool_of(adopted):
        assert run("follow.js", "suc0001", first) == "completed {}\n"
    assert _text(adopted.admin.execute("SELECT total FROM suc0001.reports").fetchone()) == ("200",)
    unknown = "00000000-0000-0000-0000-000000000000"
    assert run("follow.js", "suc0001", unknown) == f"The tenant has no job {unknown}.\n"
