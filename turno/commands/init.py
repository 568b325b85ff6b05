"""The command `turno init`."""

import re
import secrets
import tomllib
from pathlib import Path

import click
from dotenv import dotenv_values

from turno.commands.new_handler import write_handler
from turno.commands.output.results import print_message
from turno.environment import setting
from turno.errors import InvalidSettings

FILE, IGNORED = Path(".env"), Path(".gitignore")
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
NEXT = (
    "next: check DATABASE_URL in .env, then",
    "  turno db plan                                    show the changes to that database",
    "  turno db migrate",
    "  turno schema adopt suc0001                              a tenant with its tables in the schema suc0001",
    '  turno tenant add suc0001 --company acme --name "Acme"   or a tenant with a new schema',
    "  turno doctor                                            print problems and remedies",
)


@click.command(epilog="Example: turno init --package app.jobs")
@click.option("--package", default="jobs", show_default=True, help="Where the handlers go, such as app.jobs.")
@click.option("--handler", default="monthly_report", show_default=True, help="The type of the first handler.")
@click.option("--database-url", metavar="URL", help="The database; postgresql://localhost:5432/postgres by default.")
def init(package: str, handler: str, database_url: str | None) -> None:
    """Prepare this folder: `.env` with keys, one handler with its test. Touches no database and overwrites nothing."""
    if not PACKAGE.fullmatch(package):
        raise InvalidSettings([f"--package={package[:60]!r}: expected a package's name, such as jobs or app.jobs"])
    if there := setting("handlers"):
        print_message(f"kept TURNO_HANDLERS={there}: add a handler with `turno handler add NAME`")
    else:
        for line in write_handler(handler, package, LIST):
            print_message(line)
        print_message(_name_handlers(f"{package}:{LIST}"))
    added = write_environment(database_url)
    print_message(f"wrote {', '.join(added)} to .env" if added else "kept .env: every setting is there")
    if keep_out_of_git():
        print_message("added .env to .gitignore")
    for line in NEXT:
        print_message(line)


def _name_handlers(place: str) -> str:
    """Say where the handlers are, at the end of pyproject.toml; a project without one gets it."""
    text = PROJECT.read_text(encoding="utf-8") if PROJECT.exists() else ""
    tools = tomllib.loads(text).get("tool", {})
    if "turno" in tools:
        return f'add handlers = "{place}" to [tool.turno] in {PROJECT} yourself'
    tables = f'[tool.turno]\nhandlers = "{place}"\n'
    if "pytest" not in tools:
        tables += '\n[tool.pytest.ini_options]\npythonpath = ["."]\n'
    PROJECT.write_text(f"{text.rstrip()}\n\n{tables}" if text.strip() else tables, encoding="utf-8")
    return f"wrote [tool.turno] in {PROJECT}"
