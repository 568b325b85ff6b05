"""Get the tools that `turno test` runs: whoever only wants the demo does not install them."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec

import click

TOOLS = ("axe_playwright_python", "babel", "coverage", "hypothesis", "mypy", "pika", "playwright", "pytest",
         "pytest_timeout", "ruff", "schemathesis", "xdist")  # fmt: skip
BEGAN_ANEW = "TURNO_TOOLS_INSTALLED"


def begin_anew_with_tools() -> None:
    """Run this command line once more with the group `dev` installed, if a tool is missing; else just return."""
    missing = [tool for tool in TOOLS if find_spec(tool) is None]
    if not missing:
        return
    uv = shutil.which("uv")
    if uv is None or BEGAN_ANEW in os.environ:
        raise click.ClickException(
            f"these development tools are missing: {', '.join(missing)};"
            " get them with `uv sync --group dev`, or with `pip install --group dev .`"
        )
    click.echo("--- uv run --group dev")
    sys.stdout.flush()
    os.environ[BEGAN_ANEW] = "yes"
    os.execv(uv, [uv, "run", "--group", "dev", "turno", *sys.argv[1:]])  # noqa: S606 - our own command line
