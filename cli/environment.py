"""Read the environment once: real variables, then `.env`, then a running demo's."""

import os
from pathlib import Path

from app.settings import Settings

DEMO_ENVIRONMENT = Path(".turno/demo.env")
READ_ALREADY = "TURNO_DOTENV"


def read_settings() -> Settings:
    """Return this process's settings; variables that are set win over `.env`.

    A spawned worker inherits everything from its launcher, which says so, and reads no file.
    """
    if os.environ.get(READ_ALREADY) != "read":
        read_dotenv()
        _read_demo()
    settings = Settings.read(os.environ)
    # The workers that this process launches inherit its environment, and no handler may log in as the provisioner.
    os.environ.pop("ADMIN_DATABASE_URL", None)
    return settings


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
