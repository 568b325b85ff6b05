"""The command `turno workers`."""

from __future__ import annotations

from typing import Any

import click

from turno.commands.output.jobs_view import as_json
from turno.commands.output.tables import print_table
from turno.environment import read_settings
from turno.store.engine import workers as stored
from turno.wiring.shared import operator_session

HEADERS = ("host", "pid", "backend", "queues", "types", "started", "silent s", "state")

ONLY_BESIDE_WORK = (
    "No resident process and no cron job runs maintenance: lost jobs, retries and delayed jobs start within a minute"
    " after somebody submits another job, and not before."
    " To have them in time, run `turno maintain`, or `turno cleanup` by cron."
)


@click.command()
@click.option("--json", "json_wanted", is_flag=True, help="Print JSON.")
def workers(*, json_wanted: bool) -> None:
    """List the workers of every host, and how long each has been silent; one past its time is called lost.

    Each may run RESERVE_CHILDREN jobs more than it has children, for tenants that none of these works for.
    """
    settings = read_settings()
    with operator_session(settings) as connection:
        rows = stored.listed(connection)
        steady = stored.swept_steadily(connection)
    for row in rows:
        row["state"] = "lost" if row["silent"] > settings.dead_after_seconds else "alive"
    if json_wanted:
        click.echo(as_json(rows))
    else:
        print_table(HEADERS, [_line(row) for row in rows])
        if not steady:
            click.echo(ONLY_BESIDE_WORK)


def _line(row: dict[str, Any]) -> tuple[Any, ...]:
    queues = "all" if row["queues"] is None else ", ".join(row["queues"])
    return tuple((row | {"queues": queues, "types": len(row["types"])}).values())
