"""The command `turno job logs`: print the log lines of a job's attempts, and follow new lines."""

from time import sleep
from typing import Any
from uuid import UUID

import click

from turno.commands.job_changes import no_such_job
from turno.commands.output.results import show, wants_json
from turno.commands.output.tables import printable, text
from turno.commands.tenant_session import session_of
from turno.store.api import jobs as stored

PAGE = 1000  # lines
LOOK_SECONDS = 1.0  # between two looks for further lines
LATE_SECONDS = 3.0  # after a job's end in which its last lines may still be written


@click.command(epilog="Example: turno job logs --tenant suc0001 --follow 0192d3a4-5b6c-7d8e-9f01-23456789abcd")
@click.option("--tenant", required=True, help="Whose job.")
@click.option("--follow", is_flag=True, help="Print further lines as they come, until the job has ended.")
@click.argument("job_id", type=click.UUID)
def logs(*, tenant: str, follow: bool, job_id: UUID) -> None:
    """Show the newest log lines of each attempt of the job JOB_ID, in order."""
    json_wanted = wants_json()
    if follow and json_wanted:
        raise click.UsageError("--follow prints lines, not JSON")
    with session_of(tenant) as session:
        if session.read(lambda reader: stored.find(reader, job_id, None)) is None:
            raise no_such_job(tenant, job_id)
        after = (0, 0)
        rows: list[dict[str, Any]] = []
        while True:
            page = session.read(lambda reader: stored.logs(reader, job_id, after=after, limit=PAGE))  # noqa: B023 - called at once
            rows += page if json_wanted else []
            for row in () if json_wanted else page:
                _print(row)
            if page:
                after = (page[-1]["attempt"], page[-1]["number"])
            if len(page) == PAGE:
                continue
            if not follow or (not page and _over(session.read(lambda reader: stored.find(reader, job_id, None)))):
                break
            sleep(LOOK_SECONDS)
    if json_wanted:
        show(rows)


def _over(job: dict[str, Any] | None) -> bool:
    if job is None:
        return True
    ended = job["finished_at"]
    return ended is not None and (job["now"] - ended).total_seconds() > LATE_SECONDS


def _print(row: dict[str, Any]) -> None:
    said = printable(row["line"])
    click.echo(f"{text(row['at'])} {row['attempt']}#{row['number']} {row['level']} {printable(row['logger'])}: {said}")
