"""The command `turno docs`: the documentation as a site that needs no network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from cli.commands.development_tools import begin_anew_with_tools

ROOT = Path(__file__).resolve().parents[2]


@click.command("docs")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=ROOT / ".turno" / "docs")
def docs(*, folder: Path) -> None:
    """Build the documentation as a site into FOLDER, by default .turno/docs.

    A dead link or anchor fails, and so does a page outside docs/index.md.
    """
    if not (ROOT / "docs").is_dir():
        raise click.ClickException("the documentation is not part of the installed package: run this in a checkout")
    begin_anew_with_tools(["sphinx", "myst_parser", "furo"], group="docs")
    # Discard the doctrees of an earlier run: Sphinx would not check the pages that have not changed.
    with TemporaryDirectory() as read:
        command = ["-m", "sphinx", "--fail-on-warning", "--quiet", "--doctree-dir", read, "--conf-dir", f"{ROOT}/docs"]
        ended = subprocess.run([sys.executable, *command, str(ROOT), str(folder)], check=False)
    if ended.returncode:
        raise click.ClickException("the site has errors: correct the pages named above")
    click.echo(f"open {folder / 'index.html'}")
