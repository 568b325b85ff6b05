"""The example in FastAPI: the commands of its page lead to a job of a signed-in user, which the mounted API shows."""

from __future__ import annotations

import http.client
import json
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import sqlalchemy
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from cli.servers.free_port import free_port
from tests.acceptance.turno_process import OURS
from tests.installation import ROOT
from turno.testing.servers import fresh_database
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cli.servers.embedded_postgres import Cluster

pytestmark = pytest.mark.deep

EXAMPLE = ROOT / "examples" / "fastapi"
PAGE = ROOT / "docs" / "mounting.md"
ADMIN = "postgresql://admin@localhost/erp"


@dataclass(frozen=True)
class Project:
    """The example in a separate folder, with its database and its role."""

    folder: Path
    url: str
    role: str
    admin: psycopg.Connection[Any]

    def words(self, command: str) -> list[str]:
        """The command of the page with this environment's programs."""
        program, *arguments = shlex.split(command)
        module = "turno.commands.main" if program == "turno" else program
        return [sys.executable, "-m", module, *arguments]

    @property
    def environment(self) -> dict[str, str]:
        others = (*OURS, "TURNO_HANDLERS", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER")
        kept = {name: value for name, value in os.environ.items() if name not in others}
        server = conninfo_to_dict(self.url)
        host = {str(name): str(server[name]) for name in ("host", "port") if name in server}
        name = str(server["dbname"])
        url = sqlalchemy.URL.create("postgresql+asyncpg", self.role, "x", database=name, query=host)
        return kept | {
            "ERP_DATABASE_URL": url.render_as_string(hide_password=False), "PYTHONPATH": str(ROOT),
            "QUEUE_BACKEND": "pool",
        }  # fmt: skip

    def run(self, command: str) -> str:
        done = subprocess.run(
            self.words(command), cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False,
            timeout=90,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def served(self, command: str) -> Iterator[User]:
        user = User(free_port())
        log = self.folder / "uvicorn.log"
        with log.open("ab") as output:
            words = [*self.words(command), f"--port={user.port}"]
            process = subprocess.Popen(words, cwd=self.folder, env=self.environment, stdout=output, stderr=output)
        try:
            assert wait_until(lambda: process.poll() is not None or user.finds_server(), within=60), log.read_text()
            assert process.poll() is None, log.read_text()
            yield user
        finally:
            process.terminate()
            process.wait(30)


@dataclass
class User:
    """A user of the ERP with the cookie of a browser."""

    port: int
    headers: dict[str, str] = field(default_factory=lambda: {"Sec-Fetch-Site": "same-origin"})

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, self.headers | {"Content-Type": "application/json"})
        response = connection.getresponse()
        if cookie := response.headers["Set-Cookie"]:
            self.headers["Cookie"] = cookie.partition(";")[0]
        content = response.read().decode()
        connection.close()
        is_json = "json" in (response.headers["Content-Type"] or "")
        return response.status, json.loads(content) if is_json else content

    def finds_server(self) -> bool:
        try:
            return self.ask("GET", "/work/healthz")[0] == 200
        except OSError:
            return False

    def sign_in(self, tenant: str) -> None:
        assert self.ask("POST", "/login", {"user": "ana", "tenant": tenant})[0] == 200
        self.headers["X-Schema"] = tenant


@pytest.fixture
def project(cluster: Cluster, tmp_path: Path) -> Iterator[Project]:
    folder = tmp_path / "erp"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    role = sql.Identifier(name := f"erp_{secrets.token_hex(4)}")
    with fresh_database(cluster) as url, psycopg.connect(url, autocommit=True) as admin:
        database = sql.Identifier(admin.info.dbname)
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'x'").format(role))
        admin.execute(sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(database, role))
        admin.execute(sql.SQL("SET ROLE {}").format(role))
        admin.execute((folder / "schema.sql").read_text().encode())
        admin.execute("RESET ROLE")
        yield Project(folder, url, name, admin)
        admin.execute(sql.SQL("DROP OWNED BY {0} CASCADE; DROP ROLE {0}").format(role))


def test_a_user_adds_an_invoice_and_follows_its_job(project: Project) -> None:
    page = PAGE.read_text(encoding="utf-8")
    section = page[page.index("## In FastAPI") : page.index("## Beside it")]
    init, migrate, adopt, serve, work = re.findall(r"^\$ (.*)$", section, re.MULTILINE)
    assert ADMIN in init
    project.run(init.replace(ADMIN, shlex.quote(project.url)))
    assert "1 job type registered: compute_tax" in project.run(f"{migrate} --yes")
    project.run(adopt)
    with project.served(serve) as user:
        assert user.ask("POST", "/invoices", {"total": "100"})[0] == 401
        assert user.ask("GET", "/work/api/jobs")[0] == 401
        user.sign_in("suc0001")
        status, job = user.ask("POST", "/invoices", {"total": "100"})
        assert status == 200, job
        assert job in user.ask("GET", "/work/")[1]
        assert work.startswith("QUEUE_BACKEND=pool ")
        project.run(f"{work.partition(' ')[2]} --once")
        shown = user.ask("GET", f"/work/api/jobs/{job}")[1]
        assert (shown["status"], shown["user"], shown["result"]) == ("completed", "ana", {"tax": "21.00"})
        user.sign_in("suc0002")  # not adopted
        assert user.ask("POST", "/invoices", {"total": "7"})[0] == 409
    invoices = (
        "SELECT total::text, tax::text FROM suc0001.invoices UNION ALL SELECT total::text, '' FROM suc0002.invoices"
    )
    assert project.admin.execute(invoices).fetchall() == [("100", "21.00")]


def test_the_test_of_the_example_passes(project: Project) -> None:
    assert "1 passed" in project.run("pytest -q -p no:cacheprovider -p no:xdist -W error")
