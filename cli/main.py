"""The command `turno`."""

from __future__ import annotations

import click

from cli.test_command import test


@click.group()
def main() -> None:
    """Run background jobs for applications that keep each tenant in its own PostgreSQL schema."""


main.add_command(test)
