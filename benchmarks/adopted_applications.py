"""The applications of the benchmark `adopt`, without a job system and with Turno or Procrastinate."""

from __future__ import annotations

from difflib import ndiff
from typing import NamedTuple

from benchmarks.environment import ROOT

ADMIN_URL = "postgresql://admin"  # stands for the superuser's address
EXAMPLE = ROOT / "examples" / "django"
ROLE = "erp"
SCHEMA = """
CREATE SCHEMA suc0001;
CREATE TABLE suc0001.orders (id integer PRIMARY KEY, amount numeric NOT NULL);
CREATE TABLE suc0001.reports (month text PRIMARY KEY, amount numeric NOT NULL);
INSERT INTO suc0001.orders VALUES (1, 10.50), (2, 20.00);
"""

Files = dict[str, str]
Commands = tuple[tuple[str, ...], ...]


class Application(NamedTuple):
    """An application in its environment and database, the program that a user runs, and the expected end of the job."""

    files: Files
    program: tuple[str, ...]
    packages: tuple[str, ...] = ("psycopg[binary]",)
    schema: str = SCHEMA
    prepare: Commands = ()
    result: str = "SELECT amount::text FROM suc0001.reports"
    expected: str = "35.50"


class Adoption(NamedTuple):
    """The same application with a job system: its package, the changed files, and the commands around the program."""

    application: Application
    package: str
    files: Files
    install: Commands
    work: tuple[str, ...]

    @property
    def commands(self) -> int:
        """The number of commands, the installation of the package included and the application's own left out."""
        return 1 + len(self.install) + 1

    @property
    def changed_lines(self) -> dict[str, int]:
        """The number of lines that each file of the application gains or changes."""
        before = self.application.files
        return {name: _added(before.get(name, ""), text) for name, text in self.files.items() if text}


def _added(before: str, after: str) -> int:
    lines = ndiff(before.splitlines(), after.splitlines())
    return len([line for line in lines if line.startswith("+ ") and line[2:].strip()])


def with_turno(application: Application, wheel: str, files: Files) -> Adoption:
    """Return the application with Turno, by the commands of docs/adopting.md."""
    own: Files = {"pyproject.toml": '[tool.turno]\nhandlers = "app.jobs:HANDLERS"\n', "app/jobs.py": HANDLER}
    return Adoption(application, wheel, own | files, _commands("turno"), ("turno", "work", "--once"))


def django_with_turno(wheel: str) -> Adoption:
    """Return examples/django without its pages, by the commands of docs/writing-handlers.md."""
    manage = ("python", "manage.py", "turno")
    names = ("pyproject.toml", "erp/settings.py", "sales/jobs.py", "sales/views.py")
    files = {name: (EXAMPLE / name).read_text(encoding="utf-8") for name in names}
    return Adoption(DJANGO, f"{wheel}[django]", files, _commands(*manage), (*manage, "work", "--once"))


def _commands(*turno: str) -> Commands:
    return (
        (*turno, "init", "--database-url", ADMIN_URL),
        (*turno, "db", "migrate", "--yes"),
        (*turno, "schema", "adopt", "suc0001"),
    )


def with_procrastinate(application: Application, files: Files) -> Adoption:
    """Return the application with Procrastinate's connector for psycopg."""
    program = ("procrastinate", "--app=app.jobs.procrastinate_app")
    files = {"app/jobs.py": TASK, **files}
    return Adoption(application, PEER, files, ((*program, "schema", "--apply"),), (*program, "worker", "--one-shot"))


def django_with_procrastinate() -> Adoption:
    """Return examples/django with Procrastinate's adapter for Django."""
    settings = DJANGO.files["erp/settings.py"]
    files = {
        "erp/settings.py": settings.replace('"customers",', '"customers",\n    "procrastinate.contrib.django",'),
        "sales/tasks.py": DJANGO_TASK,
        "sales/views.py": DJANGO_VIEW.format(
            imports="from sales.tasks import compute_tax\n",
            enqueue="        job = compute_tax.defer(schema=connection.schema_name, invoice=invoice.pk)\n",
            answer='"job": job',
        ),
    }
    migrate = ("python", "manage.py", "migrate_schemas", "--shared")
    work = ("python", "manage.py", "procrastinate", "worker", "--one-shot")
    return Adoption(DJANGO, f"{PEER}[django]", files, (migrate,), work)


PEER = "procrastinate"
HANDLER = """\
from dataclasses import dataclass
from turno import JobHandler

@dataclass(frozen=True)
class Month:
    month: str

class MonthlyReport(JobHandler[Month]):
    type = "monthly_report"

    def handle(self, job, payload):
        job.connection.execute("INSERT INTO reports SELECT %s, sum(amount) FROM orders", [payload.month])
        return {}

HANDLERS = [MonthlyReport]
"""
TASK = """\
import procrastinate, psycopg
procrastinate_app = procrastinate.App(connector=procrastinate.PsycopgConnector())

@procrastinate_app.task(name="monthly_report")
def monthly_report(schema, month):
    with psycopg.connect() as connection:
        connection.execute(f"INSERT INTO {schema}.reports SELECT %s, sum(amount) FROM {schema}.orders", [month])
"""
ORDER = "INSERT INTO suc0001.orders VALUES (3, 5)"


def _plain(imports: str = "", enqueue: str = "") -> Files:
    text = f"""\
import psycopg
{imports}
with psycopg.connect() as connection:
    connection.execute("{ORDER}")
{enqueue}
"""
    return {"app/__init__.py": "", "app/close_month.py": text}


PLAIN = Application(_plain(), ("python", "-m", "app.close_month"))
PLAIN_TURNO = _plain("import turno", '    turno.enqueue(connection, "suc0001", "monthly_report", month="2026-06")')
PLAIN_PROCRASTINATE = _plain(
    "from app.jobs import monthly_report",
    '    monthly_report.configure(connection=connection).defer(schema="suc0001", month="2026-06")',
)


def _fastapi(driver: str, body: str, imports: str = "", enqueue: str = "") -> Files:
    text = f"""\
import asyncio
import httpx
from fastapi import FastAPI
{driver}
{imports}
app = FastAPI()

@app.post("/months/{{month}}")
async def close_month(month: str):
{body}
{enqueue}

async def main():
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app") as client:
        (await client.post("/months/2026-06")).raise_for_status()

asyncio.run(main())
"""
    return {"app/__init__.py": "", "app/close_month.py": text}


ENQUEUE = '        await turno.enqueue_async(connection, "suc0001", "monthly_report", month=month)'
DRIVERS = {
    "psycopg": (
        "import psycopg",
        f"""\
    async with await psycopg.AsyncConnection.connect() as connection:
        await connection.execute("{ORDER}")""",
        ("psycopg[binary]",),
    ),
    "asyncpg": (
        "import asyncpg",
        f"""\
    connection = await asyncpg.connect()
    async with connection.transaction():
        await connection.execute("{ORDER}")""",
        ("asyncpg",),
    ),
    "SQLAlchemy": (
        "from sqlalchemy import text\nfrom sqlalchemy.ext.asyncio import create_async_engine",
        f"""\
    engine = create_async_engine("postgresql+asyncpg://")
    async with engine.begin() as connection:
        await connection.execute(text("{ORDER}"))""",
        ("asyncpg", "sqlalchemy[asyncio]"),
    ),
}
FASTAPI = {
    name: Application(_fastapi(driver, body), PLAIN.program, ("fastapi", "httpx", *packages))
    for name, (driver, body, packages) in DRIVERS.items()
}
FASTAPI_TURNO = {name: _fastapi(driver, body, "import turno", ENQUEUE) for name, (driver, body, _) in DRIVERS.items()}
FASTAPI_PROCRASTINATE = _fastapi(
    *DRIVERS["psycopg"][:2],
    "from app.jobs import monthly_report",
    '        await monthly_report.configure(connection=connection).defer_async(schema="suc0001", month=month)',
)


def _php(enqueue: str = "") -> Files:
    text = f"""\
<?php
$database = new PDO('pgsql:', null, null, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
$database->beginTransaction();
$database->exec('{ORDER}');
{enqueue}
$database->commit();
"""
    return {"close_month.php": text}


PHP = Application(_php(), ("php", "close_month.php"), packages=())
PHP_TURNO = {
    "app/__init__.py": "",
    **_php("""\
$enqueue = $database->prepare('SELECT turno.enqueue(tenant => :tenant, type => :type, payload => :payload)');
$enqueue->execute(['tenant' => 'suc0001', 'type' => 'monthly_report', 'payload' => '{"month": "2026-06"}']);"""),
}


def _node(enqueue: str = "") -> Files:
    text = f"""\
const {{ Client }} = require("pg");
async function main() {{
  const client = new Client();
  await client.connect();
  await client.query("BEGIN");
  await client.query("{ORDER}");
{enqueue}
  await client.query("COMMIT");
  await client.end();
}}
main();
"""
    return {"close_month.js": text}


NODE = Application(_node(), ("node", "close_month.js"), packages=())
NODE_TURNO = {
    "app/__init__.py": "",
    **_node("""\
  await client.query("SELECT turno.enqueue(tenant => $1, type => $2, payload => $3)",
    ["suc0001", "monthly_report", '{"month": "2026-06"}']);"""),
}
DJANGO_VIEW = """\
\"\"\"An invoice and the job that computes its tax commit together, or roll back together.\"\"\"

from django.db import connection, transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_POST

from sales.models import Invoice
{imports}

@require_POST
def add_invoice(request: HttpRequest) -> JsonResponse:
    with transaction.atomic():
        invoice = Invoice.objects.create(total=request.POST["total"])
{enqueue}    return JsonResponse({{{answer}}})
"""
DJANGO_TASK = """\
from decimal import Decimal

from django.db import transaction
from django_tenants.utils import schema_context
from procrastinate.contrib.django import app

from sales.models import Invoice


@app.task
def compute_tax(schema, invoice):
    with schema_context(schema), transaction.atomic():
        row = Invoice.objects.select_for_update().get(pk=invoice)
        row.tax = row.total * Decimal("0.21")
        row.save()
"""
POST = """\
import django
django.setup()
from django.test import Client
assert Client().post("/invoices/", {"total": "100"}, HTTP_HOST="suc0001.localhost").status_code == 200
"""


def _django() -> Files:
    """Return the files of examples/django without Turno."""
    files = {str(path.relative_to(EXAMPLE)): path.read_text(encoding="utf-8") for path in EXAMPLE.rglob("*.py")}
    for name in ("sales/jobs.py", "sales/tests.py"):
        del files[name]
    plain = {
        name: "".join(line for line in text.splitlines(keepends=True) if "turno" not in line)
        for name, text in files.items()
    }
    view = DJANGO_VIEW.format(imports="", enqueue="", answer='"invoice": invoice.pk')
    return {**plain, "sales/views.py": view, "post.py": POST}


DJANGO = Application(
    _django(),
    ("python", "post.py"),
    ("psycopg[binary]", "django", "django-tenants"),
    schema="",
    prepare=(
        ("python", "manage.py", "migrate_schemas", "--shared"),
        ("python", "manage.py", "create_tenant", "--noinput", "--schema_name=suc0001", "--name=Centro",
         "--domain-domain=suc0001.localhost", "--domain-is_primary=True"),
    ),
    result="SELECT tax::text FROM suc0001.sales_invoice",
    expected="21.00",
)  # fmt: skip
