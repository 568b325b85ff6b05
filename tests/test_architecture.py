"""The import arrows: which room may import which. A new arrow changes this table, or it is a mistake."""

import ast
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FIRST_PARTY = ("app", "cli", "handlers", "imports", "nemesis", "reports", "tax_authority", "tenants", "turno")
# The composition roots, and the modules above them.
ABOVE = (
    "cli",
    "nemesis",
    "turno.administration",
    "turno.commands",
    "turno.environment",
    "turno.servers",
    "turno.testing",
    "turno.wiring",
    "turno.without_secrets",
)

# For each room, longest prefix first: the first-party modules and outside packages it may import.
ARROWS: dict[str, set[str]] = {
    "turno.migrations": set(),
    "turno.tenancy.identity": {"turno.tenancy.identity", "psycopg"},
    "turno.capability": {"turno.errors", "turno.named", "turno.tenancy.rights.matrix"},
    "turno.tenancy.rights": {
        "turno.capability",
        "turno.errors",
        "turno.named",
        "turno.tenancy.identity",
        "turno.tenancy.rights",
        "psycopg",
    },
    "turno.tenancy.schema_migrations": {
        "turno.capability",
        "turno.errors",
        "turno.migrations",
        "turno.tenancy.identity",
        "turno.tenancy.rights",
        "turno.tenancy.schema_migrations",
        "psycopg",
    },
    "turno.tenancy.provisioning": {
        "turno.errors",
        "turno.tenancy.identity",
        "turno.tenancy.rights",
        "turno.tenancy.schema_migrations",
        "turno.tenancy.provisioning",
        "psycopg",
    },
    "turno.tenancy.catalog": {
        "turno.capability",
        "turno.named",
        "turno.tenancy.identity",
        "turno.tenancy.rights",
        "turno.tenancy.provisioning",
        "turno.tenancy.catalog",
        "psycopg",
    },
    "turno.tenancy": set(),
    "turno.errors": set(),
    "turno.logs": {"turno.jobs.moment", "turno.jobs.redaction"},
    "turno.crash_points": set(),
    "turno.handed_secrets": set(),
    "turno.settings": {"turno.capability", "turno.errors", "turno.limits", "turno.setting_forms"},
    "turno.limits": {"turno.setting_forms"},
    "turno.setting_forms": set(),
    "turno.named": set(),
    "turno.traces": set(),
    "turno.tracing": {"turno.capability", "turno.named", "turno.traces"},
    "turno.orm": {"turno.errors", "turno.jobs", "psycopg", "sqlalchemy"},
    "turno.process_name": set(),
    "turno.jobs": {"turno.errors", "turno.jobs", "turno.named", "turno.tenancy.identity.tenant", "cronsim", "msgspec"},
    "turno.store.engine": {
        "turno.capability",
        "turno.errors",
        "turno.jobs",
        "turno.store.changes",
        "turno.store.engine",
        "turno.store.engine_link",
        "turno.store.statements",
        "turno.tenancy.identity.tenant",
        "psycopg",
    },
    "turno.store.handler": {
        "turno.traces",
        "turno.errors",
        "turno.jobs",
        "turno.store.handler",
        "turno.store.statements",
        "psycopg",
    },
    "turno.store.api": {
        "turno.capability",
        "turno.errors",
        "turno.jobs",
        "turno.store.api",
        "turno.store.statements",
        "psycopg",
    },
    "turno.store.operator": {"turno.capability", "turno.jobs", "turno.named", "turno.store.operator", "psycopg"},
    "turno.store.host": {"turno.errors", "turno.jobs", "turno.store.statements", "psycopg"},
    "turno.store": {"turno.errors", "turno.jobs", "turno.store.outage", "psycopg"},
    "turno.mail": {"turno.settings"},
    "turno.catalogue": {"turno.capability", "turno.errors", "turno.jobs"},
    "turno.client": {"turno.client", "turno.errors"},
    "turno.queues.exec": {
        "turno.errors",
        "turno.crash_points",
        "turno.handed_secrets",
        "turno.jobs",
        "turno.queues.exec",
        "turno.queues.interface",
    },
    "turno.queues": {"turno.errors", "turno.jobs"},
    "turno.dispatch": {
        "turno.tracing",
        "turno.errors",
        "turno.crash_points",
        "turno.jobs",
        "turno.store.api",
        "turno.store.operator",
        "turno.store.outage",
        "turno.store.statements",
        "turno.queues.interface",
        "turno.dispatch",
        "turno.tenancy.identity",
        "psycopg",
    },
    "turno.maintenance": {
        "turno.capability",
        "turno.named",
        "turno.errors",
        "turno.jobs",
        "turno.settings",
        "turno.store.engine",
        "turno.store.engine_link",
        "turno.store.outage",
        "turno.maintenance",
        "turno.process_name",
        "turno.queues.interface",
        "psycopg",
    },
    "turno.runner": {
        "turno.capability",
        "turno.named",
        "turno.settings",
        "turno.tracing",
        "turno.errors",
        "turno.crash_points",
        "turno.jobs",
        "turno.store.handler",
        "turno.store.outage",
        "turno.store.statements",
        "turno.queues.interface",
        "turno.runner",
        "turno.tenancy.identity",
        "psycopg",
        "setproctitle",
    },
    "turno.worker": {
        "turno.errors",
        "turno.crash_points",
        "turno.jobs",
        "turno.store.engine",
        "turno.store.engine_link",
        "turno.store.outage",
        "turno.process_name",
        "turno.queues.exec",
        "turno.runner",
        "turno.tenancy.identity",
        "turno.worker",
        "psycopg",
    },
    "turno.http_server": {"turno.errors", "turno.http_server", "turno.logs", "turno.settings", "uvicorn"},
    "turno.web.http": {
        "turno.errors",
        "turno.jobs",
        "turno.store.outage",
        "turno.web.http",
        "flask",
        "msgspec",
        "werkzeug",
    },
    "turno.web": {
        "turno.capability",
        "turno.catalogue",
        "turno.named",
        "turno.errors",
        "turno.settings",
        "turno.jobs",
        "turno.dispatch",
        "turno.http_server.thread_shares",
        "turno.store.api",
        "turno.store.health",
        "turno.store.operator",
        "turno.store.outage",
        "turno.traces",
        "turno.web",
        "turno.tenancy.identity",
        "turno.tenancy.schema_migrations.lacking",
        "flask",
        "jwt",
        "markupsafe",
        "msgspec",
        "werkzeug",
    },
    "turno.capabilities": set(),
    "turno.capabilities.admin": {
        "turno.capabilities.admin",
        "turno.capability",
        "turno.dispatch",
        "turno.errors",
        "turno.jobs",
        "turno.store.api",
        "turno.store.operator",
        "turno.web",
        "flask",
        "msgspec",
        "psycopg",
    },
    "turno.capabilities.adoption": {
        "turno.capabilities.adoption",
        "turno.capability",
        "turno.errors",
        "turno.tenancy",
        "psycopg",
    },
    "turno.capabilities.alerts": {
        "turno.capabilities.alerts",
        "turno.capability",
        "turno.jobs.moment",
        "turno.mail",
        "turno.maintenance.deliveries",
        "turno.settings",
        "turno.store.operator.troubles",
        "turno.tenancy.rights.matrix",
        "psycopg",
    },
    "turno.capabilities.effects": {
        "turno.capabilities.effects",
        "turno.capability",
        "turno.crash_points",
        "turno.dispatch.dispatcher",
        "turno.errors",
        "turno.jobs",
        "turno.runner",
        "turno.store",
        "turno.tenancy",
        "turno.web",
        "flask",
        "markupsafe",
        "msgspec",
        "psycopg",
    },
    "turno.capabilities.events": {
        "turno.capabilities.events",
        "turno.capability",
        "turno.errors",
        "turno.jobs",
        "turno.maintenance.each_tenant",
        "turno.runner.context",
        "turno.store",
        "turno.tenancy.rights.matrix",
        "psycopg",
    },
    "turno.capabilities.files": {
        "turno.capabilities.files",
        "turno.capability",
        "turno.errors",
        "turno.jobs",
        "turno.maintenance.each_tenant",
        "turno.runner.context",
        "turno.settings",
        "turno.store",
        "turno.tenancy.identity",
        "turno.tenancy.rights.matrix",
        "turno.web",
        "flask",
        "markupsafe",
        "psycopg",
        "werkzeug",
    },
    "turno.capabilities.parts": {
        "turno.capabilities.parts",
        "turno.capability",
        "turno.crash_points",
        "turno.errors",
        "turno.jobs",
        "turno.runner",
        "turno.store",
        "turno.tenancy.rights.matrix",
        "psycopg",
    },
    "turno.capabilities.rabbitmq": {
        "turno.capabilities.rabbitmq",
        "turno.capability",
        "turno.crash_points",
        "turno.errors",
        "turno.jobs",
        "turno.store.engine",
        "turno.store.outage",
        "turno.tenancy.rights.matrix",
        "turno.worker.sources.source",
        "pika",
        "psycopg",
    },
    "turno.capabilities.pages": {
        "turno.capabilities.pages",
        "turno.capability",
        "turno.errors",
        "turno.jobs",
        "turno.store.api",
        "turno.web",
        "flask",
    },
    "turno.capabilities.audit": {
        "turno.capabilities.audit",
        "turno.capability",
        "turno.tenancy.rights.matrix",
        "turno.web",
        "flask",
        "psycopg",
    },
    "turno.capabilities.tags": {
        "turno.capabilities.tags",
        "turno.capability",
        "turno.dispatch.dispatcher",
        "turno.errors",
        "turno.store.host",
        "turno.tenancy.rights.matrix",
        "turno.web",
        "msgspec",
    },
    "turno.capabilities.schedule_templates": {
        "turno.capabilities.schedule_templates",
        "turno.capability",
        "turno.jobs",
        "turno.maintenance.each_tenant",
        "turno.maintenance.recurring",
        "turno.store",
        "turno.tenancy.identity",
        "turno.tenancy.rights.matrix",
        "turno.web",
        "flask",
        "psycopg",
    },
    "turno.capabilities.schedules": {
        "turno.capabilities.schedules",
        "turno.capability",
        "turno.errors",
        "turno.jobs",
        "turno.maintenance.each_tenant",
        "turno.maintenance.recurring",
        "turno.store",
        "turno.tenancy.identity",
        "turno.tenancy.rights.matrix",
        "turno.web",
        "flask",
        "msgspec",
        "psycopg",
    },
    "turno.capabilities.streams": {
        "turno.capabilities.streams",
        "turno.capability",
        "turno.errors",
        "turno.http_server.thread_shares",
        "turno.jobs",
        "turno.settings",
        "turno.store",
        "turno.tenancy.identity",
        "turno.tenancy.rights.matrix",
        "turno.web",
        "flask",
        "flask_sse",
        "psycopg",
    },
    "turno.capabilities.webhooks": {
        "turno.capabilities.webhooks",
        "turno.capability",
        "turno.catalogue",
        "turno.dispatch.dispatcher",
        "turno.jobs",
        "turno.mail",
        "turno.maintenance",
        "turno.store",
        "turno.tenancy.rights.matrix",
        "turno.web",
        "flask",
        "markupsafe",
        "msgspec",
        "psycopg",
    },
    "turno.capabilities.statistics": {
        "turno.capabilities.statistics",
        "turno.capability",
        "turno.jobs.label",
        "turno.named",
        "turno.store.engine.workers",
        "turno.store.operator",
        "turno.tenancy.rights.matrix",
        "turno.web",
        "flask",
        "prometheus_client",
        "psycopg",
    },
    "turno.capabilities.tracing": {
        "turno.capabilities.tracing",
        "turno.capability",
        "turno.traces",
        "turno.tracing",
        "opentelemetry",
    },
    "turno": set(),
    "handlers.invoicing": {"psycopg"},
    "handlers": {"turno", "handlers", "imports.data_import", "reports.consolidated_report", "tax_authority", "msgspec"},
    "imports.data_import": {"turno", "imports", "msgspec", "psycopg"},
    "imports": {"imports", "psycopg", "python_calamine"},
    "reports.consolidated_report": {"turno", "reports", "psycopg"},
    "reports": {"reports", "psycopg", "xlsxwriter"},
    "tax_authority.taxpayer_sync": {"turno", "tax_authority", "msgspec", "psycopg"},
    "tax_authority.invoice_authorisation": {"turno", "tax_authority", "psycopg"},
    "tax_authority.authorising": {"tax_authority", "handlers.invoicing", "cryptography", "psycopg"},
    "tax_authority.stub": {"tax_authority.stub", "cryptography", "lxml"},
    "tax_authority": {"tax_authority", "cryptography", "lxml", "zeep"},
    "app": {"app", "turno", "flask", "msgspec", "psycopg"},
    "tenants": {"tenants", "psycopg"},
    "turno.pages": {"turno.web"},
}


def modules() -> Iterator[tuple[str, Path]]:
    for package in FIRST_PARTY:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            yield name.removesuffix(".__init__"), path


def imports(path: Path) -> Iterator[str]:
    """Every module a file imports, wherever in it; imports for the type checker are no arrow."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    hidden = {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for statement in block.body
        for node in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if node in hidden:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: one canonical path from day one, no relative imports"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


# Commands, deliveries, programs and public names of a capability use the composition roots, like their counterparts in
# the core.
COMPOSED = re.compile(r"turno\.capabilities\.\w+\.(command|delivery|program|publish)\b")


def above(module: str) -> bool:
    return COMPOSED.match(module) is not None or any(f"{module}.".startswith(f"{room}.") for room in ABOVE)


def room_of(module: str) -> str | None:
    return max((room for room in ARROWS if f"{module}.".startswith(f"{room}.")), key=len, default=None)


def allowed(target: str, arrows: set[str]) -> bool:
    if target.split(".", maxsplit=1)[0] in sys.stdlib_module_names:
        return True
    return any(f"{target}.".startswith(f"{arrow}.") for arrow in arrows)


@pytest.mark.parametrize(("module", "path"), list(modules()), ids=lambda value: value if isinstance(value, str) else "")
def test_a_room_imports_only_what_its_arrows_allow(module: str, path: Path) -> None:
    if above(module):
        return  # they know everyone
    room = room_of(module)
    assert room is not None, f"{module} is in no room: give it one in ARROWS"
    wrong = sorted(target for target in imports(path) if not allowed(target, ARROWS[room]))
    assert not wrong, f"{module} may not import {', '.join(wrong)}"


def foreign_capabilities(module: str, path: Path) -> list[str]:
    """Return the imports of capabilities, but for the module's own capability and public names.

    Pages of an application import them; `turno` lists them for the type checker.
    """
    if module == "turno" or module.partition(".")[0] == "app":
        return []
    own = ".".join(module.split(".")[:3]) if module.startswith("turno.capabilities.") else "nothing"
    found = (target for target in [*imports(path), *only_typed(path)] if target.startswith("turno.capabilities."))
    return [target for target in found if not f"{target}.".startswith(f"{own}.")]


def test_neither_the_core_nor_a_capability_imports_a_capability(tmp_path: Path) -> None:
    wrong = {name: found for name, path in modules() if (found := foreign_capabilities(name, path))}
    assert {name for name in wrong if not name.startswith("nemesis.")} == set()
    file = tmp_path / "wrong.py"
    file.write_text("def f():\n    from turno.capabilities.schedules import changes\n", encoding="utf-8")
    assert foreign_capabilities("turno.maintenance.tasks", file) == ["turno.capabilities.schedules.changes"]
    assert foreign_capabilities("turno.capabilities.files.api", file) == ["turno.capabilities.schedules.changes"]
    assert foreign_capabilities("turno.capabilities.schedules.api", file) == []


def test_one_module_alone_reads_the_tenants_of_a_task() -> None:
    """Every task that works tenant by tenant runs through EachTenant, with its transactions, limits and back-offs."""
    readers = {module for module, path in modules() if ".tenant_turns(" in path.read_text("utf-8")}
    assert readers == {"turno.maintenance.each_tenant"}
    # Lists of tenants for people, checks of the catalog, and commands with a login of their own, which isolate tenants.
    lists = re.compile(r"tenant_schemas\(admin|list_active\(\)|FROM turno\.tenants\b(?s:.{0,120})ORDER BY")
    others = {module for module, path in modules() if not above(module) and lists.search(path.read_text("utf-8"))}
    assert others == {
        "turno.capabilities.admin.many_jobs",
        "turno.capabilities.adoption.uninstall",
        "turno.capabilities.effects.doubt",
        "turno.tenancy.provisioning.installation",
        "turno.tenancy.rights.schemas",
        "turno.tenancy.schema_migrations.all_schemas",
        "turno.web.pages.branches",
    }
    queries = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "turno").rglob("control/functions/*.sql")
        if re.search(r"\bRETURNS (SETOF|TABLE)", text := path.read_text(encoding="utf-8"))
        and re.search(r"FROM tenants n?\b[^;]*WHERE (n\.)?state = 'active'", text)
    }
    assert queries == {"turno/migrations/control/functions/tenant_turns.sql"}


def test_nothing_but_the_tests_imports_the_composition_root() -> None:
    wrong = {module for module, path in modules() if not above(module) for name in imports(path) if above(name)}
    assert not wrong


def test_the_job_system_s_root_imports_nothing() -> None:
    assert [name for name in imports(ROOT / "turno" / "__init__.py") if not allowed(name, set())] == []


def test_a_forbidden_arrow_is_found(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text("import flask\nfrom turno.web.api import jobs\nimport json\n", encoding="utf-8")
    assert [name for name in imports(file) if not allowed(name, ARROWS["turno.store"])] == [
        "flask",
        "turno.web.api.jobs",
    ]


# The public names of the library in `docs/library.md`: names of these modules, and these rooms.
PUBLIC_NAMES = (
    "turno",
    "turno.capabilities.adoption.program",
    "turno.capabilities.files.pages",
    "turno.capabilities.pages.home",
    "turno.pages",
    "turno.administration",
    "turno.client",
    "turno.orm",
)
PUBLIC_ROOMS = ("turno.commands", "turno.servers")


def public(target: str) -> bool:
    module, _, name = target.rpartition(".")
    if any(f"{target}.".startswith(f"{room}.") for room in PUBLIC_ROOMS):
        return True
    return module in PUBLIC_NAMES and name in import_module(module).__all__


@pytest.mark.parametrize("package", ["app", "cli", "handlers", "imports", "reports", "tax_authority", "tenants"])
def test_the_application_uses_the_library_s_public_names_alone(package: str) -> None:
    used = {
        (path.relative_to(ROOT).as_posix(), target)
        for path in (ROOT / package).rglob("*.py")
        for target in [*imports(path), *only_typed(path)]
        if target.partition(".")[0] == "turno"
    }
    assert {one for one in used if not public(one[1])} == set()
    assert used or package == "tenants"


def only_typed(path: Path) -> Iterator[str]:
    """A file's imports for the type checker alone."""
    for block in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING":
            for node in block.body:
                if isinstance(node, ast.ImportFrom):
                    yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_a_name_that_is_not_public_is_found() -> None:
    assert public("turno.JobHandler")
    assert public("turno.pages.Visit")
    assert not public("turno.wiring.web.Turno")
    assert not public("turno.store.api.jobs")


@pytest.mark.parametrize("ring", ["unit", "integration"])
def test_tests_stand_in_folders_named_like_the_rooms(ring: str) -> None:
    rooms = {path.name for top in (ROOT, ROOT / "turno") for path in top.iterdir() if path.is_dir()}
    folders = {path.name for path in (ROOT / "tests" / ring).iterdir() if path.is_dir()} - {"__pycache__"}
    assert folders <= rooms


def test_the_example_for_newcomers_has_at_most_300_lines() -> None:
    files = ("batch_invoicing.py", "batch_invoicing_words.py", "invoicing.py")
    assert sum(len((ROOT / "handlers" / name).read_text(encoding="utf-8").splitlines()) for name in files) <= 300
