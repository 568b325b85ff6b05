"""The command `turno workers`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from turno.commands.output.jobs_view import as_json
from turno.commands.output.tables import print_table
from turno.environment import read_settings
from turno.errors import TurnoError
from turno.process_name import person
from turno.store.engine import workers as stored
from turno.store.operator.run_time_settings import ask_worker, list_workers
from turno.wiring.logins import operator_session

WANTED = {"quiet": "quiet", "stop": "stopping"}
HEADERS = ("host", "pid", "backend", "queues", "types", "started", "silent s", "state")

if TYPE_CHECKING:
    from psycopg import Connection


class NoSuchWorker(TurnoError):
    """The list of workers has none at this place."""


ONLY_BESIDE_WORK = (
    "No resident process and no cron job runs maintenance: lost jobs, retries and delayed jobs start within a minute"
    " after somebody submits another job, and not before."
    " To have them in time, run `turno maintain`, or `turno cleanup` by cron."
)


@click.command()
@click.option("--quiet", metavar="HOST:PID", help="Ask this worker to claim nothing more, and to finish what it has.")
@click.option("--stop", metavar="HOST:PID", help="Ask this worker to stop, as by SIGTERM.")
@click.option("--resume", metavar="HOST:PID", help="Ask this worker to claim again.")
@click.option("--by", default=person, help="Who is on record; by default the user of this shell.")
@click.option("--json", "json_wanted", is_flag=True, help="Print JSON.")
def workers(*, json_wanted: bool, by: str, **asked: str | None) -> None:
    """List the workers of every host and the age of each heartbeat; a worker beyond TURNO_DEAD_AFTER_SECONDS is lost.

    A worker may run TURNO_RESERVE_CHILDREN additional jobs, for tenants without a running job. It receives a request
    with its next heartbeat.
    """
    settings = read_settings()
    with operator_session(settings) as connection:
        for word, place in asked.items():
            if place is not None:
                _ask(connection, place, None if word == "resume" else word, by)
        rows = stored.listed(connection)
        steady = stored.swept_steadily(connection)
    for row in rows:
        request = row.pop("request")
        row["state"] = "lost" if row["silent"] > settings.dead_after_seconds else WANTED.get(request, "alive")
    if json_wanted:
        click.echo(as_json(rows))
    else:
        print_table(HEADERS, [_line(row) for row in rows])
        if not steady:
            click.echo(ONLY_BESIDE_WORK)


def _ask(connection: Connection[Any], place: str, request: str | None, by: str) -> None:
    named = [one for one in list_workers(connection) if place == f"{one['host']}:{one['pid']}"]
    if not named:
        raise NoSuchWorker(f"no worker is {place[:200]!r}; see `turno workers`")
    for one in named:
        ask_worker(connection, one["id"], request, by=by)


def _line(row: dict[str, Any]) -> tuple[Any, ...]:
    queues = "all" if row["queues"] is None else ", ".join(row["queues"])
    return tuple((row | {"queues": queues, "types": len(row["types"])}).values())
