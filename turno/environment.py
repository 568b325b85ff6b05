"""Read the environment: real variables, then `.env`, then a running demo's."""

import os
import sys
from io import StringIO
from pathlib import Path

from turno.errors import InvalidSettings
from turno.handed_secrets import VARIABLE, taken
from turno.settings import Settings

DEMO_ENVIRONMENT = Path(".turno/demo.env")
READ_ALREADY = "TURNO_DOTENV"


def read_settings() -> Settings:
    """Return this process's settings: what was handed over to it, its variables, then those of the files."""
    complete_environment()
    return Settings.read({**os.environ, **taken()})


def public_settings() -> Settings:
    """Return the settings that stand in the environment: in a sealed process, all but the secrets."""
    complete_environment()
    return Settings.read(os.environ)


def complete_environment() -> None:
    """Add the variables of `.env`, and of a running demo, that are not set.

    A program that was started by another of ours inherits everything from it, which says so, and reads no file.
    """
    if os.environ.get(READ_ALREADY) != "read":
        read_dotenv()
        _read_demo()


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
    os.environ[READ_ALREADY] = "read"


def read_dotenv() -> None:
    """Add the variables of `.env` that are not set."""
    _add(_variables(Path(".env")))


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
