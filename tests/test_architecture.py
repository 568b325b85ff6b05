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
    "tenants": {"tenants", "migrations", "psycopg"},
    "app.errors": set(),
    "app.logs": set(),
    "app.crash_points": set(),
    "app.handed_secrets": set(),
    "app.places": set(),
    "app.settings": {"app.errors"},
    "app.jobs": {"app.errors", "app.jobs", "tenants.tenant"},
    "app.store": {"app.errors", "app.jobs", "app.store", "tenants.tenant", "psycopg"},
    "app.queues.link": {"app.errors", "app.jobs", "app.queues", "pika"},
    "app.queues.publisher": {"app.errors", "app.jobs", "app.queues", "pika"},
    "app.queues.receiver": {"app.errors", "app.jobs", "app.queues", "pika"},
    "app.queues.topology": {"app.errors", "app.jobs", "pika"},
    "app.queues": {"app.errors", "app.crash_points", "app.handed_secrets", "app.jobs", "app.queues"},
    "app.dispatch": {
        "app.errors",
        "app.crash_points",
        "app.jobs",
        "app.store",
        "app.queues.interface",
        "app.dispatch",
        "tenants",
        "psycopg",
    },
    "app.work": {
        "app.errors",
        "app.crash_points",
        "app.jobs",
        "app.store",
        "app.queues.interface",
        "app.work",
        "tenants",
        "psycopg",
        "setproctitle",
    },
    "app.watch": {"app.errors", "app.jobs", "app.store", "app.queues.interface", "app.watch", "tenants", "psycopg"},
    "app.web": {
        "app.errors",
        "app.places",
        "app.settings",
        "app.jobs",
        "app.dispatch",
        "app.store",
        "app.watch",
        "app.web",
        "tenants",
        "flask",
        "flask_sse",
        "jwt",
        "pydantic",
        "pydantic_core",
        "werkzeug",
    },
    "app": set(),
    "handlers.services": {"handlers.services", "psycopg"},
    "handlers": {"app.errors", "app.jobs", "handlers", "tenants", "psycopg"},
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
    file.write_text("import flask\nfrom app.web import jobs\nimport json\n", encoding="utf-8")
    assert [name for name in imports(file) if not allowed(name, ARROWS["app.store"])] == ["flask", "app.web.jobs"]
