"""The import arrows: which room may import which. A new arrow changes this table, or it is a mistake."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FIRST_PARTY = ("app", "cli", "handlers", "migrations", "tenants")

# For each room, longest prefix first: the first-party modules and outside packages it may import.
ARROWS: dict[str, set[str]] = {
    "migrations": set(),
    "tenants.identity": {"tenants.identity", "psycopg"},
    "tenants.rights": {"tenants.identity", "tenants.rights", "psycopg"},
    "tenants.schema_migrations": {
        "migrations",
        "tenants.identity",
        "tenants.rights",
        "tenants.schema_migrations",
        "psycopg",
    },
    "tenants.provisioning": {
        "tenants.identity",
        "tenants.rights",
        "tenants.schema_migrations",
        "tenants.provisioning",
        "psycopg",
    },
    "tenants.catalog": {"tenants.identity", "tenants.rights", "tenants.provisioning", "tenants.catalog", "psycopg"},
    "tenants": set(),
    "app.errors": set(),
    "app.logs": set(),
    "app.crash_points": set(),
    "app.handed_secrets": set(),
    "app.settings": {"app.errors"},
    "app.jobs": {"app.errors", "app.jobs", "tenants.identity.tenant"},
    "app.store.engine": {
        "app.errors",
        "app.jobs",
        "app.store.engine",
        "app.store.refusals",
        "tenants.identity.tenant",
        "psycopg",
    },
    "app.store.handler": {
        "app.errors",
        "app.jobs",
        "app.store.handler",
        "app.store.pipeline",
        "app.store.refusals",
        "psycopg",
    },
    "app.store.api": {"app.errors", "app.jobs", "app.store.api", "app.store.refusals", "psycopg"},
    "app.store.operator": {"app.jobs", "app.store.operator", "psycopg"},
    "app.store": {"app.errors", "app.jobs", "app.store.outage", "psycopg"},
    "app.queues.exec": {
        "app.errors",
        "app.crash_points",
        "app.handed_secrets",
        "app.jobs",
        "app.queues.exec",
        "app.queues.interface",
    },
    "app.queues.rabbitmq.relay": {
        "app.errors",
        "app.crash_points",
        "app.jobs",
        "app.store.engine",
        "app.store.engine_link",
        "psycopg",
    },
    "app.queues.rabbitmq": {"app.errors", "app.jobs", "app.queues.rabbitmq", "pika"},
    "app.queues": {"app.errors", "app.jobs"},
    "app.dispatch": {
        "app.errors",
        "app.crash_points",
        "app.jobs",
        "app.store.api",
        "app.store.operator",
        "app.store.refusals",
        "app.queues.interface",
        "app.dispatch",
        "tenants.identity",
        "psycopg",
    },
    "app.maintenance": {
        "app.errors",
        "app.jobs",
        "app.store.engine",
        "app.store.engine_link",
        "app.store.outage",
        "app.queues.interface",
        "psycopg",
    },
    "app.runner": {
        "app.errors",
        "app.crash_points",
        "app.jobs",
        "app.store.handler",
        "app.store.outage",
        "app.store.pipeline",
        "app.store.refusals",
        "app.queues.interface",
        "app.runner",
        "tenants.identity",
        "psycopg",
        "setproctitle",
    },
    "app.worker": {
        "app.errors",
        "app.crash_points",
        "app.jobs",
        "app.store.engine",
        "app.store.engine_link",
        "app.store.changes",
        "app.store.outage",
        "app.runner",
        "app.worker",
        "psycopg",
    },
    "app.streaming": {
        "app.errors",
        "app.jobs",
        "app.store.api",
        "app.store.changes",
        "app.streaming",
        "tenants.identity",
        "psycopg",
    },
    "app.web.http": {
        "app.errors",
        "app.jobs",
        "app.store.outage",
        "app.web.http",
        "flask",
        "pydantic",
        "pydantic_core",
        "werkzeug",
    },
    "app.web": {
        "app.errors",
        "app.settings",
        "app.jobs",
        "app.dispatch",
        "app.store.api",
        "app.store.health",
        "app.store.orders",
        "app.store.outage",
        "app.streaming",
        "app.web",
        "tenants.identity",
        "flask",
        "flask_sse",
        "jwt",
        "pydantic",
        "werkzeug",
    },
    "app": set(),
    "handlers.services": {"handlers.services", "psycopg"},
    "handlers": {"app.errors", "app.jobs", "handlers", "psycopg"},
}


def modules() -> Iterator[tuple[str, Path]]:
    for package in FIRST_PARTY:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            yield name.removesuffix(".__init__"), path


def imports(path: Path) -> Iterator[str]:
    """Every module a file imports, wherever in it; what only the type checker sees is no arrow."""
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


def room_of(module: str) -> str | None:
    return max((room for room in ARROWS if f"{module}.".startswith(f"{room}.")), key=len, default=None)


def allowed(target: str, arrows: set[str]) -> bool:
    if target.split(".", maxsplit=1)[0] in sys.stdlib_module_names:
        return True
    return any(f"{target}.".startswith(f"{arrow}.") for arrow in arrows)


@pytest.mark.parametrize(("module", "path"), list(modules()), ids=lambda value: value if isinstance(value, str) else "")
def test_a_room_imports_only_what_its_arrows_allow(module: str, path: Path) -> None:
    if module.split(".", maxsplit=1)[0] == "cli":
        return  # the composition root knows everyone
    room = room_of(module)
    assert room is not None, f"{module} is in no room: give it one in ARROWS"
    wrong = sorted(target for target in imports(path) if not allowed(target, ARROWS[room]))
    assert not wrong, f"{module} may not import {', '.join(wrong)}"


def test_nothing_but_the_tests_imports_the_composition_root() -> None:
    wrong = {
        module for module, path in modules() if module.split(".")[0] != "cli" for name in imports(path)
        if name.split(".")[0] == "cli"
    }  # fmt: skip
    assert not wrong


def test_the_job_system_s_root_imports_nothing() -> None:
    assert list(imports(ROOT / "app" / "__init__.py")) == []


def test_a_forbidden_arrow_is_found(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text("import flask\nfrom app.web.api import jobs\nimport json\n", encoding="utf-8")
    assert [name for name in imports(file) if not allowed(name, ARROWS["app.store"])] == ["flask", "app.web.api.jobs"]
