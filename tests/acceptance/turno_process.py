"""Run the real `turno` as a process, as a person would."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.installation import HANDLERS, ROOT, TABLES, WEB_APP

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

OURS = (
    "DATABASE_URL",
    "TURNO_ADMIN_DATABASE_URL",
    "TURNO_MASTER_KEY",
    "TURNO_JWT_KEY",
    "TURNO_DOTENV",
    "DEMO_MARK",
    "TURNO_CRASH_AT",
)


def bare_environment(**variables: str) -> dict[str, str]:
    """Return this process's environment without any setting of ours, and with `variables`."""
    kept = {name: value for name, value in os.environ.items() if name not in OURS}
    return kept | {"TURNO_HANDLERS": HANDLERS, "TURNO_WEB_APP": WEB_APP, "PYTHONPATH": str(ROOT)} | variables


def as_checkout(folder: Path) -> None:
    """Give a folder the facts of this checkout's project."""
    if not (project := folder / "pyproject.toml").exists():
        project.write_text(f'[tool.turno]\nmigrations = "{TABLES}"\ncommands = "cli.commands:COMMANDS"\n')


def turno(
    *arguments: str, environment: Mapping[str, str], folder: Path, answer: str = ""
) -> subprocess.CompletedProcess[str]:
    """Return the ended command; it runs in `folder`, as in this checkout's project, and reads `answer`."""
    as_checkout(folder)
    return subprocess.run(
        [sys.executable, "-m", "turno.commands.main", *arguments],
        env=environment,
        cwd=folder,
        input=answer,
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
