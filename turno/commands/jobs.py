"""The commands `turno job …`."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import click

from turno.commands.job_changes import cancel, change, discard, no_such_job, retry
from turno.commands.job_list import list_jobs
from turno.commands.job_logs import logs
from turno.commands.output.jobs_view import details, error
from turno.commands.output.results import show, wants_json
from turno.commands.output.tables import print_table, printable, text
from turno.commands.submit_job import rerun, submit
from turno.commands.tenant_session import session_of
from turno.environment import read_settings
from turno.jobs.error_record import without_our_frames
from turno.jobs.handler import named_handlers
from turno.jobs.redaction import Redaction
from turno.store.api import jobs as stored

MOST_ITEMS = 1000


tenant_option = click.option("--tenant", required=True, help="Whose jobs.")


@click.group()
def jobs() -> None:
    """Submit, list, show, retry and cancel jobs, of one tenant or of many."""


jobs.add_command(submit)


jobs.add_command(list_jobs)
jobs.add_command(logs)
for command in (retry, rerun, cancel, discard, change):
    jobs.add_command(command)


@jobs.command("show", epilog="Example: turno job show --tenant suc0001 0192d3a4-5b6c-7d8e-9f01-23456789abcd")
@tenant_option
@click.option("--traceback", "traces", is_flag=True, help="Show where each attempt failed, too.")
@click.argument("job_id", type=click.UUID)
def show_job(*, tenant: str, traces: bool, job_id: UUID) -> None:
    """Show the job JOB_ID with its attempts and the items that failed."""
    with session_of(tenant) as session:
        job = session.read(lambda reader: stored.find(reader, job_id, None))
        if job is None:
            raise no_such_job(tenant, job_id)
        settings = read_settings()
        redaction = Redaction(settings.redact, named_handlers(settings.handlers).handlers)
        payload = session.read(lambda reader: stored.payload(reader, job_id))
        job["payload"] = redaction.value(payload, job["type"])
        attempts = session.read(lambda reader: stored.attempts(reader, job_id))
        failed = session.read(lambda reader: stored.items(reader, job_id, "failed", "", MOST_ITEMS))
    if wants_json():
        show({**job, "attempts": attempts, "failed_items": failed})
        return
    for name, value in details(job):
        click.echo(f"{name:<13} {text(value)}")
    _section(("attempt", "started", "finished", "outcome", "error"), attempts, _attempt_row)
    for attempt in attempts if traces else ():
        if trace := (attempt["error"] or {}).get("traceback"):
            click.echo(f"\nattempt {attempt['attempt']} failed\n{printable(without_our_frames(trace))}")
    _section(("failed item", "error"), failed, lambda item: (item["key"], error(item["error"])))


def _section(
    headers: tuple[str, ...], rows: list[dict[str, Any]], row: Callable[[dict[str, Any]], tuple[Any, ...]]
) -> None:
    if rows:
        click.echo()
        print_table(headers, [row(each) for each in rows])


def _attempt_row(attempt: dict[str, Any]) -> tuple[Any, ...]:
    return (
        attempt["attempt"],
        attempt["started_at"],
        attempt["finished_at"],
        attempt["outcome"],
        error(attempt["error"]),
    )
