"""The structure of the library: import contracts, public names, and one runner of work per tenant."""

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FIRST_PARTY = ("app", "cli", "handlers", "imports", "nemesis", "reports", "tax_authority", "tenants", "turno")
# Modules with logins of their own, which isolate tenants.
COMMANDS = re.compile(
    r"(cli|nemesis|turno\.(administration|commands|environment|servers|testing|wiring)"
    r"|turno\.capabilities\.\w+\.(command|delivery|program|publish))\b"
)


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


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the contracts of pyproject.toml in a folder."""
    command: list[str | Path] = [
        Path(sys.executable).with_name("lint-imports"),
        "--no-cache",
        "--config",
        ROOT / "pyproject.toml",
    ]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_imports_keep_every_contract() -> None:
    checked = lint(ROOT)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        ("maintenance/tasks.py", "import turno.capabilities.schedules.stored", "Layers of the library"),
        ("capabilities/files/api.py", "import turno.capabilities.schedules.stored", "imports no other capability"),
        ("runner/executor.py", "import turno.store.engine.engine", "without the engine's login"),
        ("store/api/jobs.py", "import flask", "Flask serves the web"),
        ("jobs/new_job.py", "import psycopg", "no I/O"),
        ("unknown.py", "import json", "Layers of the library"),
    ],
)
def test_import_against_a_contract_is_found(file: str, line: str, contract: str, tmp_path: Path) -> None:
    for package in FIRST_PARTY:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=lambda _, names: {"__pycache__"} & {*names})
    with (tmp_path / "turno" / file).open("a", encoding="utf-8") as module:
        module.write(f"\n\ndef late():\n    {line}\n")
    checked = lint(tmp_path)
    assert checked.returncode == 1
    assert re.search(rf"{contract}[^\n]* BROKEN", checked.stdout), checked.stdout


def test_one_module_alone_reads_the_tenants_of_a_task() -> None:
    """Every task that works tenant by tenant runs through EachTenant, with its transactions, limits and back-offs."""
    readers = {module for module, path in modules() if ".tenant_turns(" in path.read_text("utf-8")}
    assert readers == {"turno.maintenance.each_tenant"}
    # Lists of tenants for people, checks of the catalog, and commands with a login of their own, which isolate tenants.
    lists = re.compile(r"tenant_schemas\(admin|list_active\(\)|FROM turno\.tenants\b(?s:.{0,120})ORDER BY")
    others = {
        module for module, path in modules() if not COMMANDS.match(module) and lists.search(path.read_text("utf-8"))
    }
    assert others == {
        "turno.capabilities.admin.jobs",
        "turno.capabilities.adoption.uninstall",
        "turno.tenancy.design",
        "turno.tenancy.rights.schemas",
        "turno.tenancy.schema_migrations.all_schemas",
        "turno.web.pages.visit",
    }
    queries = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "turno").rglob("control/functions/*.sql")
        if re.search(r"\bRETURNS (SETOF|TABLE)", text := path.read_text(encoding="utf-8"))
        and re.search(r"FROM tenants n?\b[^;]*WHERE (n\.)?state = 'active'", text)
    }
    assert queries == {"turno/migrations/control/functions/tenant_turns.sql"}


def test_import_of_the_library_loads_no_part_of_it() -> None:
    assert {name.partition(".")[0] for name in imports(ROOT / "turno" / "__init__.py")} <= sys.stdlib_module_names


# The public names of the library in `docs/library.md`: names of these modules, and these packages.
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
PUBLIC_PACKAGES = ("turno.commands", "turno.testing")


def public(target: str) -> bool:
    module, _, name = target.rpartition(".")
    if any(f"{target}.".startswith(f"{package}.") for package in PUBLIC_PACKAGES):
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
    assert {use for use in used if not public(use[1])} == set()
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
def test_tests_stand_in_folders_named_like_packages(ring: str) -> None:
    packages = {path.name for top in (ROOT, ROOT / "turno") for path in top.iterdir() if path.is_dir()}
    folders = {path.name for path in (ROOT / "tests" / ring).iterdir() if path.is_dir()} - {"__pycache__"}
    assert folders <= packages


def test_the_example_for_newcomers_has_at_most_300_lines() -> None:
    files = ("batch_invoicing.py", "batch_invoicing_words.py", "invoicing.py")
    assert sum(len((ROOT / "handlers" / name).read_text(encoding="utf-8").splitlines()) for name in files) <= 300


def test_names_of_tests_have_at_most_60_characters() -> None:
    paths = [path for top in ("tests", "turno") for path in sorted((ROOT / top).rglob("*.py"))]
    names = [name for path in paths for name in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))]
    assert [name for name in names if len(name) > 60] == []
