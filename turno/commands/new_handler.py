"""The command `turno handler add`."""

from __future__ import annotations

import click

from turno.commands.project_files.new_handler_files import write_handler
from turno.environment import setting
from turno.errors import InvalidSettings


@click.command("add", epilog="Example: turno handler add send_letters")
@click.argument("name")
def new_handler(name: str) -> None:
    """Write a handler for jobs of the type NAME, with its test, beside the handlers of this project."""
    place = setting("handlers")
    package, _, list_name = place.partition(":")
    if not list_name:
        raise InvalidSettings(
            ["TURNO_HANDLERS is not set: run `turno init`, or name the list of handlers of this project"]
        )
    for line in write_handler(name, package, list_name):
        click.echo(line)
