"""The command `turno cleanup`."""

from __future__ import annotations

import json

import click

from turno.commands.output.tables import print_table
from turno.environment import read_settings
from turno.logs import log_to_stderr
from turno.without_secrets import RESIDENTS_NEED, seal


@click.command()
@click.option("--dry-run", is_flag=True, help="Roll each task back and count its changes, of batches the first.")
@click.option("--json", "json_wanted", is_flag=True, help="Print one JSON object instead of a table.")
def cleanup(*, dry_run: bool, json_wanted: bool) -> None:
    """Run every maintenance task once, as cron does: rescue, promote, repair, expire, purge and offer again.

    Each task may be repeated, may overlap with another and may be missed for a day.
    """
    # Cron mails what is written: a warning is worth a mail, a line of counts is the table below.
    log_to_stderr("WARNING")
    seal(*RESIDENTS_NEED)
    from turno.wiring.deliveries import run_deliveries  # noqa: PLC0415 - not twice, if it must begin anew
    from turno.wiring.shared import maintenance  # noqa: PLC0415

    settings = read_settings()
    tasks = maintenance(settings, dry_run=dry_run)
    try:
        counts = tasks.run_once()
    finally:
        tasks.close()
    if not dry_run:
        run_deliveries(settings)
    if json_wanted:
        click.echo(json.dumps(counts))
    else:
        print_table(("task", "would be" if dry_run else "done"), list(counts.items()))
