"""The command `turno demo`."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.demo.demonstration import Demo
from cli.demo.folder import DemoFolder
from turno.administration import DEMO_ENVIRONMENT

if TYPE_CHECKING:
    from types import FrameType

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command()
@click.option("--exit", "leave", is_flag=True, help="Stop everything at the end instead of leaving the pages open.")
@click.option("--json", "as_json", is_flag=True, help="End with one line of JSON.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the web; a free one by default.")
def demo(*, leave: bool, as_json: bool, port: int | None) -> None:
    """Start a database, three branches and the web here, invoice 830 orders over HTTP, and leave the pages open.

    Everything is kept in the folder .turno. Set DATABASE_URL (and let its user create roles) to use a PostgreSQL
    of yours instead.
    """
    os.umask(0o077)
    played = Demo(DemoFolder(Path.cwd() / DEMO_ENVIRONMENT.parent), port=port)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        totals = played.play()
        if not leave:
            click.echo(played.invitation())
        if as_json:
            click.echo(totals.as_json())
        if not leave:
            _stay(played)
    finally:
        # A second Ctrl-C must not leave half of it running; stopping has its own limits.
        for number in STOPPING:
            signal.signal(number, signal.SIG_IGN)
        played.close()


def _stay(played: Demo) -> None:
    try:
        played.stay()
    except KeyboardInterrupt:
        click.echo("\nstopping")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
