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
        _load(Path(".env"))
        if not os.environ.get("DATABASE_URL"):
            _load(DEMO_ENVIRONMENT)
    return Settings.read(os.environ)


def _load(path: Path) -> None:
    if path.is_file():
        from dotenv import load_dotenv  # noqa: PLC0415 - a spawned worker never needs it

        load_dotenv(path)
