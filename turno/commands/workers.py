"""The commands `turno work --once …`."""

from typing import Any

import click
from psycopg import Connection

from turno.commands.output.results import print_message, show, wants_json
from turno.environment import read_settings
from turno.errors import TurnoError
from turno.process_name import person
from turno.store.engine import workers as stored
from turno.store.operator.run_time_settings import ask_worker, list_workers
from turno.wiring.logins import operator_session

WANTED = {"quiet": "quiet", "stop": "stopping"}
HEADERS = ("host", "pid", "backend", "queues", "types", "started", "silent s", "state")


class NoSuchWorker(TurnoError):
    """The list of workers has none at this place."""


ONLY_BESIDE_WORK = (
    "No resident process and no cron job runs maintenance: lost jobs, retries and delayed jobs start within a minute"
    " after the next submission, and not before."
    " To have them in time, run `turno maintain`, or `turno maintain --once` by cron."
)


@click.command("set", epilog="Example: turno worker set app1:4711 quiet")
@click.argument("worker", metavar="HOST:PID")
@click.argument("request", type=click.Choice(["quiet", "resume", "stop"]))
@click.option("--by", default=person, help="Name in the audit; by default the user of this shell.")
def change(worker: str, request: str, by: str) -> None:
    """Request that a worker claims no more jobs (quiet), claims again (resume), or stops as by SIGTERM (stop).

    The worker receives the request with its next heartbeat.
    """
    with operator_session(read_settings()) as connection:
        _ask(connection, worker, None if request == "resume" else request, by)
    print_message(f"worker {worker}: {request}")


@click.command("list", epilog="Example: turno worker list --json")
def list_all() -> None:
    """List the workers of every host and the age of each heartbeat; a worker beyond TURNO_DEAD_AFTER_SECONDS is lost.

    A worker may run TURNO_RESERVE_CHILDREN additional jobs, for tenants without a running job.
    """
    settings = read_settings()
    with operator_session(settings) as connection:
        rows = stored.listed(connection)
        steady = stored.swept_steadily(connection)
    for row in rows:
        request = row.pop("request")
        row["state"] = "lost" if row["silent"] > settings.dead_after_seconds else WANTED.get(request, "alive")
    show(rows, HEADERS, [_line(row) for row in rows])
    if not (steady or wants_json()):
        click.echo(ONLY_BESIDE_WORK)


def _ask(connection: Connection[Any], place: str, request: str | None, by: str) -> None:
    named = [one for one in list_workers(connection) if place == f"{one['host']}:{one['pid']}"]
    if not named:
        raise NoSuchWorker(f"no worker is {place[:200]!r}; see `turno worker list`")
    for one in named:
        ask_worker(connection, one["id"], request, by=by)


def _line(row: dict[str, Any]) -> tuple[Any, ...]:
    queues = "all" if row["queues"] is None else ", ".join(row["queues"])
    return tuple((row | {"queues": queues, "types": len(row["types"])}).values())
