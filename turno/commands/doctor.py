"""The command `turno doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from turno.commands.diagnosis.of_database import of_database
from turno.commands.diagnosis.of_settings import of_settings
from turno.commands.output.failures import explained
from turno.commands.output.tables import printable
from turno.environment import read_settings, variables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turno.commands.diagnosis.advice import Advice


@click.command()
def doctor() -> int:
    """Examine settings, handlers, database and workers; each line ends with what to do. Changes nothing.

    Exit status 1 if something is wrong.
    """
    count = 0
    for one in _advice():
        count += 1
        click.echo(printable(f"{one.problem}; {one.mend}"))
    click.echo(f"{count} to mend" if count else "everything is as it should be")
    return int(bool(count))


def _advice() -> Iterator[Advice]:
    found = list(of_settings(variables()))
    yield from found
    if any(one.fatal for one in found):
        return
    yield from of_database(read_settings(), explained)
