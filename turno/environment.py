"""Read the environment: real variables, then `.env`, then a running demo's, then what the project itself says."""

import os
import sys
from io import StringIO
from pathlib import Path

from turno.errors import InvalidSettings
from turno.handed_secrets import VARIABLE, taken
from turno.settings import Settings

DEMO_ENVIRONMENT = Path(".turno/demo.env")
READ_ALREADY = "TURNO_DOTENV"
# What a project says of itself, in its pyproject.toml under [tool.turno]: it is the same wherever the project runs.
PROJECT = ("handlers", "web_app", "migrations", "commands")


def read_settings() -> Settings:
    """Return this process's settings: what was handed over to it, its variables, then those of the files."""
    complete_environment()
    return Settings.read({**os.environ, **taken()})


def public_settings() -> Settings:
    """Return the settings that stand in the environment: in a sealed process, all but the secrets."""
    complete_environment()
    return Settings.read(os.environ)


def complete_environment() -> None:
    """Add the variables of `.env`, of a running demo and of the project that are not set.

    A program that was started by another of ours inherits everything from it, which says so, and reads no file.
    """
    if os.environ.get(READ_ALREADY) != "read":
        read_dotenv()
        _read_demo()
        read_project()


def read_env_file(name: str) -> None:
    """Add the variables of this file that are not set, in place of those of `.env`; `-` is standard input.

    No shell reads it: a value may hold `&` and `$`. A program that was started anew by `seal` has read it already.
    """
    if VARIABLE in os.environ:
        return
    try:
        lines = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, ValueError) as problem:
        raise InvalidSettings([f"--env-file {name}: {problem}"]) from None
    _add(_values(lines))
    read_project()
    os.environ[READ_ALREADY] = "read"


def read_dotenv() -> None:
    """Add the variables of `.env` that are not set."""
    _add(_variables(Path(".env")))


def read_project() -> None:
    """Add what the project says of itself and no variable does."""
    _add(project())


def said(name: str) -> str:
    """Return what the environment, `.env` or the project says under this name, without reading all of them in."""
    return os.environ.get(name) or _variables(Path(".env")).get(name) or project().get(name, "")


def project() -> dict[str, str]:
    """Return what `[tool.turno]` in the working directory's pyproject.toml says, as variables."""
    file = Path("pyproject.toml")
    if not file.is_file():
        return {}
    import tomllib  # noqa: PLC0415 - a spawned worker never needs it

    try:
        said = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {}).get("turno", {})
    except (OSError, ValueError) as problem:
        raise InvalidSettings([f"pyproject.toml: {problem}"]) from None
    for name, value in said.items():
        if name not in PROJECT or not isinstance(value, str):
            raise InvalidSettings([f"pyproject.toml: [tool.turno] knows the texts {', '.join(PROJECT)}, not {name}"])
    return {name.upper(): value for name, value in said.items()}


def _read_demo() -> None:
    # Its keys open its own database alone, so it says nothing where another one is named.
    demo = _variables(DEMO_ENVIRONMENT)
    named = os.environ.get("DATABASE_URL")
    if not named or named in (demo.get("DATABASE_URL"), demo.get("ADMIN_DATABASE_URL")):
        _add(demo)


def _add(variables: dict[str, str]) -> None:
    for name, value in variables.items():
        if not os.environ.get(name):
            os.environ[name] = value


def _variables(path: Path) -> dict[str, str]:
    return _values(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _values(lines: str) -> dict[str, str]:
    from dotenv import dotenv_values  # noqa: PLC0415 - a spawned worker never needs it

    found = dotenv_values(stream=StringIO(lines), interpolate=False)
    return {name: value for name, value in found.items() if value is not None}
