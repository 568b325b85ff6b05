"""Read the environment: real variables, then `.env`, then a running demo's."""

import os
from pathlib import Path

from app.handed_secrets import taken
from app.settings import Settings

DEMO_ENVIRONMENT = Path(".turno/demo.env")
READ_ALREADY = "TURNO_DOTENV"


def read_settings() -> Settings:
    """Return this process's settings: what was handed over to it, its variables, then those of the files."""
    complete_environment()
    return Settings.read({**os.environ, **taken()})


def complete_environment() -> None:
    """Add the variables of `.env`, and of a running demo, that are not set.

    A program that was started by another of ours inherits everything from it, which says so, and reads no file.
    """
    if os.environ.get(READ_ALREADY) != "read":
        read_dotenv()
        _read_demo()


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
    if not path.is_file():
        return {}
    from dotenv import dotenv_values  # noqa: PLC0415 - a spawned worker never needs it

    return {name: value for name, value in dotenv_values(path).items() if value is not None}
