"""The example with django-tenants: the commands of its page lead to a job in each schema, and its tests pass."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.acceptance.turno_process import OURS
from tests.installation import ROOT
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.deep

EXAMPLE = ROOT / "examples" / "django"
PAGE = ROOT / "docs" / "writing-handlers.md"
ADMIN = "postgresql://admin@localhost/erp"
POST = """
import sys
from django.test import Client
for total in sys.argv[2:]:
    assert Client().post("/invoices/", {"total": total}, HTTP_HOST=f"{sys.argv[1]}.localhost").status_code == 200
"""

PAGES = """
import sys
from django.contrib.auth import get_user_model
from django.test import Client
from django_tenants.utils import schema_context
from dotenv import load_dotenv
load_dotenv(".env")
with schema_context(sys.argv[1]):
    get_user_model().objects.create_superuser("ana", password="secret")
client = Client(HTTP_HOST=f"{sys.argv[1]}.localhost")
assert client.get("/jobs/")["Location"].startswith("/admin/login/")
client.post("/admin/login/", {"username": "ana", "password": "secret"})
job = client.post("/invoices/", {"total": "1"}).json()["job"]
assert job in client.get("/jobs/").content.decode()
answer = client.get("/jobs/api/jobs/" + job, HTTP_X_SCHEMA=sys.argv[1])
assert answer.json()["type"] == "compute_tax"
assert "/admin/turno/job/" in client.get("/admin/").content.decode()
assert client.get("/admin/turno/job/")["Location"] == "/jobs/"
"""


@dataclass(frozen=True)
class Project:
    """The example in a separate folder, with its database and its role."""

    folder: Path
    url: str
    application: str
    admin: psycopg.Connection[Any]

    def start(self, command: str) -> subprocess.Popen[str]:
        kept = {name: value for name, value in os.environ.items() if name not in (*OURS, "TURNO_HANDLERS")}
        own = {"ERP_DATABASE_URL": self.application, "DJANGO_SETTINGS_MODULE": "erp.settings", "PYTHONPATH": str(ROOT)}
        words = [sys.executable if word == "python" else word for word in shlex.split(command)]
        env = kept | own | {"TURNO_MAX_CHILDREN": "1"}
        return subprocess.Popen(
            ["env", *words], cwd=self.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def run(self, command: str) -> str:
        process = self.start(command)
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0, output
        return output

    def post(self, tenant: str, *totals: str) -> None:
        self.run(shlex.join(["python", "-c", f"import django; django.setup(){POST}", tenant, *totals]))

    def taxes(self, schema: str) -> list[tuple[str, str | None]]:
        rows = sql.SQL("SELECT total::text, tax::text FROM {} ORDER BY id").format(
            sql.Identifier(schema, "sales_invoice")
        )
        return self.admin.execute(rows).fetchall()


@pytest.fixture
def project(each_new_database: str, tmp_path: Path) -> Iterator[Project]:
    folder = tmp_path / "erp"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    role = sql.Identifier(name := f"erp_{secrets.token_hex(4)}")
    with psycopg.connect(each_new_database, autocommit=True) as admin:
        database = sql.Identifier(admin.info.dbname)
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN CREATEDB PASSWORD 'x'").format(role))
        admin.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(database, role))
        yield Project(folder, each_new_database, make_conninfo(each_new_database, user=name, password="x"), admin)
        admin.execute(sql.SQL("ALTER DATABASE {} OWNER TO CURRENT_USER").format(database))
        admin.execute(sql.SQL("DROP OWNED BY {0} CASCADE; DROP ROLE {0}").format(role))


def test_commands_of_the_page_run_a_job_in_each_schema(project: Project) -> None:
    page = PAGE.read_text(encoding="utf-8")
    section = page[page.index("### Django\n") : page.index("#### Tests in Django")]
    shared, create, init, migrate, adopt, work = re.findall(r"^\$ (.*)$", section, re.MULTILINE)
    assert ADMIN in init
    project.run(shared)
    for tenant in ("suc0001", "suc0002"):
        project.run(create.replace("suc0001", tenant))
    project.run(init.replace(ADMIN, shlex.quote(project.url)))
    assert "job type registered: compute_tax" in project.run(f"{migrate} --yes")
    for tenant in ("suc0001", "suc0002"):
        project.run(adopt.replace("suc0001", tenant))
    project.post("suc0001", "100", "7.50")
    assert project.taxes("suc0001") == [("100.00", None), ("7.50", None)]
    assert "turno.W" not in project.run("python manage.py turno work --once")
    assert project.taxes("suc0001") == [("100.00", "21.00"), ("7.50", "1.58")]
    worker = project.start(work)
    project.post("suc0002", "1000")
    try:
        assert wait_until(lambda: project.taxes("suc0002") == [("1000.00", "210.00")], within=60)
    finally:
        worker.terminate()
        worker.communicate(timeout=30)
    project.run(shlex.join(["python", "-c", f"import django; django.setup(){PAGES}", "suc0002"]))
    project.run("python manage.py check --fail-level WARNING")
    migrations = project.folder / "sales" / "migrations"
    later = (migrations / "0001_initial.py").read_text().replace('"Invoice"', '"Line"')
    (migrations / "0002_line.py").write_text(
        later.replace("initial = True", 'dependencies = [("sales", "0001_initial")]')
    )
    assert "Applying sales.0002_line" in project.run("python manage.py migrate_schemas --tenant")
    project.run("python manage.py turno db check")
    project.run("python manage.py turno db uninstall --yes")
    assert project.admin.execute("SELECT FROM pg_namespace WHERE nspname = 'turno' OR nspname ~ '^t_'").rowcount == 0


def test_tests_of_the_example_pass(project: Project) -> None:
    assert re.search(r"^Ran 2 tests in .*\n\nOK$", project.run("python manage.py test"), re.MULTILINE)


def test_turno_needs_five_lines_of_settings_at_most() -> None:
    lines = [*(EXAMPLE / "pyproject.toml").read_text().splitlines()]
    lines += [line for line in (EXAMPLE / "erp" / "settings.py").read_text().splitlines() if "turno" in line.lower()]
    assert len(lines) <= 5, lines
