"""The command `turno status`."""

from datetime import timedelta

import click

from turno.commands.output.results import show, wants_json
from turno.commands.output.tables import printable
from turno.environment import read_settings
from turno.jobs.moment import written
from turno.store.operator.troubles import Trouble, troubles
from turno.wiring.logins import operator_session


@click.command(epilog="Example: turno status --all")
@click.option("--all", "everything", is_flag=True, help="Print all problems, not only the worst.")
def status(*, everything: bool) -> int:
    """State whether anything is wrong: affected tenant, start and repairing command; exit status 1 if so."""
    settings = read_settings()
    with operator_session(settings) as operator:
        found = troubles(operator, timedelta(seconds=settings.dead_after_seconds))
    if wants_json():
        show([one._asdict() for one in found])
    elif not found:
        click.echo("nothing is wrong")
    else:
        for one in found if everything else found[:1]:
            click.echo(sentence(one))
        if len(found) > 1 and not everything:
            click.echo(f"and {len(found) - 1} more: turno status --all")
    return int(bool(found))


def sentence(trouble: Trouble) -> str:
    """Return the trouble on one line."""
    since = f", since {written(trouble.since)}" if trouble.since else ""
    return printable(f"{trouble.sentence}{since}; run `{trouble.command}`")
