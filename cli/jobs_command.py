"""The commands `turno jobs …`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from app.errors import TurnoError
from app.jobs.job import Status
from app.store import jobs as stored
from cli.jobs_view import LIST_HEADERS, as_json, details, error, list_row
from cli.tables import print_table, text
from cli.tenant_session import session_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

MOST_ITEMS = 1000


class JobRefused(TurnoError):
    """The job is not there, or its state does not allow this."""


tenant_option = click.option("--tenant", required=True, help="Whose jobs.")
json_option = click.option("--json", "json_wanted", is_flag=True, help="Print JSON.")


@click.group()
def jobs() -> None:
    """List, show, retry and cancel the jobs of one tenant."""


@jobs.command("list")
@tenant_option
@json_option
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice([status.value for status in Status]),
    help="May be repeated.",
)
@click.option("--type", "types", multiple=True, help="Only this job type; may be repeated.")
@click.option("--user", help="Only this user's.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True)
def list_jobs(
    *,
    tenant: str,
    json_wanted: bool,
    statuses: tuple[str, ...],
    types: tuple[str, ...],
    user: str | None,
    limit: int,
) -> None:
    """List jobs, newest first."""
    wanted = stored.JobFilter(user_id=user, statuses=statuses, types=types, limit=limit)
    with session_of(tenant) as session:
        rows = session.read(lambda reader: stored.search(reader, wanted))
    if json_wanted:
        click.echo(as_json(rows))
    else:
        print_table(LIST_HEADERS, [list_row(row) for row in rows])


@jobs.command()
@tenant_option
@json_option
@click.argument("job_id", type=click.UUID)
def show(*, tenant: str, json_wanted: bool, job_id: UUID) -> None:
    """Show the job JOB_ID with its attempts and the items that failed."""
    with session_of(tenant) as session:
        job = session.read(lambda reader: stored.find(reader, job_id, None))
        if job is None:
            raise _no_such_job(tenant, job_id)
        attempts = session.read(lambda reader: stored.attempts(reader, job_id))
        failed = session.read(lambda reader: stored.items(reader, job_id, "failed", "", MOST_ITEMS))
    if json_wanted:
        click.echo(as_json({**job, "attempts": attempts, "failed_items": failed}))
        return
    for name, value in details(job):
        click.echo(f"{name:<13} {text(value)}")
    _section(("attempt", "started", "finished", "outcome", "error"), attempts, _attempt_row)
    _section(("failed item", "error"), failed, lambda item: (item["key"], error(item["error"])))


@jobs.command()
@tenant_option
@click.argument("job_id", type=click.UUID)
def retry(*, tenant: str, job_id: UUID) -> None:
    """Make a new job that goes on where the ended job JOB_ID left off: only what is not done is done."""
    with session_of(tenant) as session:
        verdict = session.dispatcher.retry(session.tenant, job_id, user_id=None, correlation_id=None)
    match verdict.word:
        case "accepted":
            click.echo(f"job {verdict.job_id} continues {job_id}")
        case "replayed":
            click.echo(f"job {verdict.job_id} continues {job_id} already")
        case "unknown":
            raise _no_such_job(tenant, job_id)
        case _:
            raise JobRefused(f"job {job_id} cannot be retried: it has not ended, or there is nothing left to do")


@jobs.command()
@tenant_option
@click.option("--reason", default="cancelled by an operator", show_default=True)
@click.argument("job_id", type=click.UUID)
def cancel(*, tenant: str, reason: str, job_id: UUID) -> None:
    """Cancel the waiting job JOB_ID, or ask it to stop if it is running."""
    with session_of(tenant) as session:
        verdict = session.dispatcher.cancel(session.tenant, job_id, user_id=None, reason=reason)
    match verdict.word:
        case "cancelled":
            click.echo(f"job {job_id} is cancelled")
        case "requested":
            click.echo(f"job {job_id} is running and was asked to stop")
        case "unknown":
            raise _no_such_job(tenant, job_id)
        case _:
            raise JobRefused(f"job {job_id} has ended already")


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


def _no_such_job(tenant: str, job_id: UUID) -> JobRefused:
    return JobRefused(f"{tenant} has no job {job_id}")
