"""The commands `turno init` and `turno handler add`: write the settings, a handler and its test."""

import ast
import keyword
import re
import secrets
import tomllib
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import LiteralString, NamedTuple

import click
import psycopg
from click.core import ParameterSource
from dotenv import dotenv_values

from turno.commands.output import print_message
from turno.environment import setting
from turno.errors import InvalidSettings, TurnoError
from turno.wiring.embedded_server import started

FILE, IGNORED = Path(".env"), Path(".gitignore")
TEMPLATES = Path(__file__).with_name("project")
KEY_BYTES = 32
USUAL_URL = "postgresql://localhost:5432/postgres"
ABOUT = {
    "TURNO_DATABASE_URL": "address of PostgreSQL, as a user with CREATEROLE; `turno db plan` shows its changes",
    "TURNO_MASTER_KEY": "secret that the passwords of all roles are derived from; keep a copy with the backups",
    "TURNO_JWT_KEY": "secret that signs tokens",
}


def write_environment(database_url: str | None) -> list[str]:
    """Add missing settings to `.env`, readable by its owner alone; return the names that were added.

    Present settings are kept: with another TURNO_MASTER_KEY no role of the installation could log in. A `database_url`
    other than the application's DATABASE_URL is written as TURNO_DATABASE_URL, which takes precedence.
    """
    there = dotenv_values(FILE, interpolate=False) if FILE.exists() else {}
    usable = there.get("DATABASE_URL") and database_url in {None, there["DATABASE_URL"]}
    values = {} if usable else {"TURNO_DATABASE_URL": database_url or USUAL_URL}
    values |= {"TURNO_MASTER_KEY": _key(), "TURNO_JWT_KEY": _key()}
    added = {name: value for name, value in values.items() if not there.get(name)}
    if added:
        before = FILE.read_text(encoding="utf-8") if FILE.exists() else ""
        FILE.touch(mode=0o600)
        FILE.chmod(0o600)
        lines = "".join(f"# {ABOUT[name]}\n{name}={value}\n" for name, value in added.items())
        FILE.write_text(f"{before.rstrip()}\n\n{lines}" if before.strip() else lines, encoding="utf-8")
    return list(added)


def keep_out_of_git() -> bool:
    """Add `.env` to `.gitignore` in a Git checkout unless it is listed; return whether it was added."""
    if not Path(".git").exists():
        return False
    text = IGNORED.read_text(encoding="utf-8") if IGNORED.exists() else ""
    if {".env", "/.env", "*.env"} & set(map(str.strip, text.splitlines())):
        return False
    IGNORED.write_text(f"{text.rstrip()}\n.env\n".lstrip(), encoding="utf-8")
    return True


def _key() -> str:
    return secrets.token_hex(KEY_BYTES)


PROJECT = Path("pyproject.toml")
PACKAGE = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)*")
LIST = "HANDLERS"
SERVER = Path(".turno/database")
CONNECT_SECONDS = 3
INSTALLED: LiteralString = "SELECT to_regclass('turno.tenants') IS NOT NULL"
TENANT: LiteralString = "SELECT slug FROM turno.tenants WHERE state = 'active' ORDER BY slug LIMIT 1"
# A schema with tables that Turno could adopt: no tenant, and none of PostgreSQL's.
TO_ADOPT: LiteralString = """
SELECT n.nspname FROM pg_catalog.pg_namespace n
WHERE n.nspname !~ '^(pg_|t_)' AND n.nspname NOT IN ('information_schema', 'public', 'turno')
  AND EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relnamespace = n.oid AND c.relkind IN ('r', 'p'))
ORDER BY 1 LIMIT 1
"""


def next_steps(url: str) -> Iterator[str]:
    """Yield the commands that this database needs next; reads the database and changes nothing."""
    installed, tenant, schema = False, None, None
    try:
        with psycopg.connect(url, connect_timeout=CONNECT_SECONDS, autocommit=True) as admin:
            (installed,) = admin.execute(INSTALLED).fetchone() or (False,)
            if installed:
                (tenant,) = admin.execute(TENANT).fetchone() or (None,)
            (schema,) = admin.execute(TO_ADOPT).fetchone() or (None,)
        yield "next:"
    except psycopg.Error as error:
        yield f"the database of .env does not answer: {str(error).strip().splitlines()[0]}"
        yield "correct the URL in .env, or start a server in this folder by `turno init --embedded`; next:"
    if not installed:
        yield "  turno db plan      show the changes to that database"
    yield "  turno db migrate"
    if tenant:
        yield f"  turno job list --tenant {tenant}      the jobs of a tenant"
    elif schema:
        yield f"  turno schema adopt {schema}      a tenant with its tables in the schema {schema}"
    else:
        yield '  turno tenant add suc0001 --company acme --name "Acme"      a tenant with a new schema'
    yield "  turno doctor       print problems and remedies"


@click.command(epilog="Example: turno init --package app.jobs")
@click.option("--package", default="jobs", show_default=True, help="Where the handlers go, such as app.jobs.")
@click.option("--handler", default="monthly_report", show_default=True, help="The type of the first handler.")
@click.option("--database-url", metavar="URL", help="The database; postgresql://localhost:5432/postgres by default.")
@click.option("--embedded", is_flag=True, help="Start a server for development in .turno/database, and use it.")
def init(package: str, handler: str, database_url: str | None, *, embedded: bool) -> None:
    """Prepare this folder: `.env` with keys, one handler with its test. Changes no database and overwrites nothing."""
    if not PACKAGE.fullmatch(package):
        raise InvalidSettings([f"--package={package[:60]!r}: expected a package's name, such as jobs or app.jobs"])
    if embedded:
        database_url = _embedded(database_url)
    given = click.get_current_context().get_parameter_source
    if there := setting("handlers"):
        print_message(f"kept TURNO_HANDLERS={there}: add a handler with `turno handler add NAME`")
        for name in ("package", "handler"):
            if given(name) is ParameterSource.COMMANDLINE:
                print_message(f"ignored --{name}: TURNO_HANDLERS names the package already")
    else:
        for line in write_handler(handler, package, LIST):
            print_message(line)
        print_message(_name_handlers(f"{package}:{LIST}"))
    added = write_environment(database_url)
    print_message(f"wrote {', '.join(added)} to .env" if added else "kept .env: every setting is there")
    if database_url and setting("database_url") != database_url:
        print_message("ignored --database-url: .env or the environment has another TURNO_DATABASE_URL; change it there")
    if keep_out_of_git():
        print_message("added .env to .gitignore")
    for line in next_steps(setting("database_url")):
        print_message(line)


def _embedded(database_url: str | None) -> str:
    """Start the server of this folder, and return its URL."""
    if database_url:
        raise InvalidSettings(["give either --database-url or --embedded"])
    url = started(SERVER.absolute())
    print_message(f"PostgreSQL runs in {SERVER}")
    return url


def _name_handlers(reference: str) -> str:
    """Say where the handlers are, at the end of pyproject.toml; a project without one gets it."""
    text = PROJECT.read_text(encoding="utf-8") if PROJECT.exists() else ""
    tools = tomllib.loads(text).get("tool", {})
    if "turno" in tools:
        return f'add handlers = "{reference}" to [tool.turno] in {PROJECT} yourself'
    tables = f'[tool.turno]\nhandlers = "{reference}"\n'
    if "pytest" not in tools:
        tables += '\n[tool.pytest.ini_options]\npythonpath = ["."]\n'
    PROJECT.write_text(f"{text.rstrip()}\n\n{tables}" if text.strip() else tables, encoding="utf-8")
    return f"wrote [tool.turno] in {PROJECT}"


class HandlerNames(NamedTuple):
    """A handler's type, its class and its package."""

    job_type: str
    package: str

    @property
    def handler(self) -> str:
        """Return the class's name: monthly_report is MonthlyReport."""
        return "".join(word.capitalize() for word in self.job_type.split("_"))

    @property
    def import_line(self) -> str:
        """Return the line that imports the class."""
        return f"from {self.package}.{self.job_type} import {self.handler}"

    def write(self, file: Path, template: str) -> str:
        """Write a file from the template of this name beside this module; return a sentence."""
        text = Template((TEMPLATES / f"{template}.txt").read_text(encoding="utf-8"))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.substitute(self._asdict(), handler=self.handler), encoding="utf-8")
        return f"wrote {file}"


def with_handler(source: str, list_name: str, import_line: str, handler: str) -> str | None:
    """Return the source with the import and the class in its list, or None if there is no such list in it."""
    body = ast.parse(source).body
    listed = next(filter(None, (_list_in(node, list_name) for node in body)), None)
    if listed is None:
        return None
    lines = source.splitlines()
    classes = [*map(ast.unparse, listed.elts), handler]
    lines[listed.lineno - 1 : listed.end_lineno] = [f"{list_name} = [{', '.join(classes)}]"]
    imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom) and node.lineno < listed.lineno]
    after = imports[-1].end_lineno if imports else listed.lineno - 1
    lines.insert(after or 0, import_line)
    return "\n".join(lines) + "\n"


def _list_in(node: ast.stmt, name: str) -> ast.List | None:
    match node:
        case ast.Assign(targets=[ast.Name(id=found)], value=ast.List() as listed) if found == name:
            return listed
    return None


NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
MOST_CHARACTERS = 63
TESTS = Path("tests")


class CannotWrite(TurnoError):
    """A file exists already, or its name is invalid."""


def write_handler(job_type: str, package: str, list_name: str) -> list[str]:
    """Write the files of this type; return a sentence for each step that is done or left.

    Raises CannotWrite, before anything is written, if one of the files is there.
    """
    if not NAME.fullmatch(job_type) or keyword.iskeyword(job_type) or len(job_type) > MOST_CHARACTERS:
        raise CannotWrite(
            f"NAME={job_type[:70]!r}: expected small letters, digits and underscores, such as monthly_report"
        )
    names = HandlerNames(job_type, package)
    folder = Path(*package.split("."))
    module, test = folder / f"{job_type}.py", TESTS / f"test_{job_type}.py"
    for file in (module, test):
        if file.exists():
            raise CannotWrite(f"{file} is there already; choose another name, or move the file away")
    return [
        names.write(module, "handler"),
        names.write(test, "test"),
        _list(names, folder / "__init__.py", list_name),
        _conftest(names),
    ]


def _list(names: HandlerNames, module: Path, list_name: str) -> str:
    if not module.exists() or not module.read_text(encoding="utf-8").strip():
        return names.write(module, "package")
    source = with_handler(module.read_text(encoding="utf-8"), list_name, names.import_line, names.handler)
    if source is None:
        return f"add {names.handler} to {list_name} in {module} yourself: {names.import_line}"
    module.write_text(source, encoding="utf-8")
    return f"added {names.handler} to {list_name} in {module}"


def _conftest(names: HandlerNames) -> str:
    file = TESTS / "conftest.py"
    if not file.exists():
        return names.write(file, "conftest")
    if "turno.testing.plugin" in file.read_text(encoding="utf-8"):
        return f"kept {file}"
    return f'add "turno.testing.plugin" to pytest_plugins in {file} yourself'


@click.command("add", epilog="Example: turno handler add send_letters")
@click.argument("name")
def new_handler(name: str) -> None:
    """Write a handler for jobs of the type NAME, with its test, beside the handlers of this project."""
    reference = setting("handlers")
    package, _, list_name = reference.partition(":")
    if not list_name:
        raise InvalidSettings(
            ["TURNO_HANDLERS is not set: run `turno init`, or name the list of handlers of this project"]
        )
    if package.startswith("turno."):  # files in a folder `turno` would hide the library
        raise InvalidSettings(
            [f"TURNO_HANDLERS={reference} finds handlers for Turno: write the class in a module of yours"]
        )
    for line in write_handler(name, package, list_name):
        print_message(line)
