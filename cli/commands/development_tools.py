"""Install the tools of `turno test` and `turno docs` on demand: the demo does not need them."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

TOOLS = ("axe_playwright_python", "babel", "coverage", "furo", "hypothesis", "mypy", "myst_parser", "pika",
         "playwright", "pytest", "pytest_timeout", "ruff", "schemathesis", "sphinx", "xdist")  # fmt: skip
DEEP_TOOLS = (*TOOLS, "ansible", "basedpyright", "kubernetes_validate")
BEGAN_ANEW = "TOOLS_INSTALLED"


def begin_anew_with_tools(tools: Sequence[str] = TOOLS, *, group: str = "dev") -> None:
    """Run this command line once more with the group installed, if one of the tools is missing; else just return."""
    missing = [tool for tool in tools if find_spec(tool) is None]
    if not missing:
        return
    uv = shutil.which("uv")
    if uv is None or BEGAN_ANEW in os.environ:
        raise click.ClickException(
            f"these development tools are missing: {', '.join(missing)};"
            f" get them with `uv sync --group {group}`, or with `pip install --group {group} .`"
        )
    click.echo(f"--- uv run --group {group}")
    sys.stdout.flush()
    os.environ[BEGAN_ANEW] = "yes"
    os.execv(uv, [uv, "run", "--group", group, "turno", *sys.argv[1:]])  # noqa: S606 - our own command line
