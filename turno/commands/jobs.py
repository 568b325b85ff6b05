"""The commands `turno jobs …`."""

from __future__ import annotations

import json
from getpass import getuser
from typing import TYPE_CHECKING, Any

import click

from turno.commands.output.jobs_view import LIST_HEADERS, as_json, details, error, list_row
from turno.commands.output.tables import print_table, text
from turno.commands.submit_job import submit
from turno.commands.tenant_session import session_of
from turno.errors import TurnoError
from turno.jobs.job import Status
from turno.store.api import effect_review
from turno.store.api import jobs as stored

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
    """Submit, list, show, retry, cancel and settle the jobs of one tenant."""


jobs.add_command(submit)


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
@click.option("--needs-review", is_flag=True, help="Only those that wait until a person settles an outside effect.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True)
def list_jobs(
    *,
    tenant: str,
    json_wanted: bool,
    statuses: tuple[str, ...],
    types: tuple[str, ...],
    user: str | None,
    needs_review: bool,
    limit: int,
) -> None:
    """List jobs, newest first."""
    wanted = stored.JobFilter(user_id=user, statuses=statuses, types=types, needs_review=needs_review, limit=limit)
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
    """Show the job JOB_ID with its attempts, the items that failed and its outside effects."""
    with session_of(tenant) as session:
        job = session.read(lambda reader: stored.find(reader, job_id, None))
        if job is None:
            raise _no_such_job(tenant, job_id)
        attempts = session.read(lambda reader: stored.attempts(reader, job_id))
        failed = session.read(lambda reader: stored.items(reader, job_id, "failed", "", MOST_ITEMS))
        outside = session.read(lambda reader: effect_review.of_job(reader, job_id, after="", limit=MOST_ITEMS))
    if json_wanted:
        click.echo(as_json({**job, "attempts": attempts, "failed_items": failed, "effects": outside}))
        return
    for name, value in details(job):
        click.echo(f"{name:<13} {text(value)}")
    _section(("attempt", "started", "finished", "outcome", "error"), attempts, _attempt_row)
    _section(("failed item", "error"), failed, lambda item: (item["key"], error(item["error"])))
    _section(("outside effect", "state", "calls", "since", "settled by"), outside, _effect_row)


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
        case "quota":
            raise JobRefused(f"job {job_id} cannot be retried now: its user has MAX_PENDING_JOBS_PER_USER jobs open")
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


@jobs.command()
@tenant_option
@click.option("--done", metavar="JSON", help="It happened, and its call would have returned this.")
@click.option("--absent", is_flag=True, help="It did not happen and no longer can: it may be issued again.")
@click.option("--by", default=getuser, help="Whose word it is; by default the user of this shell.")
@click.argument("job_id", type=click.UUID)
@click.argument("key")
def settle(*, tenant: str, done: str | None, absent: bool, by: str, job_id: UUID, key: str) -> None:
    """Say what became of the outside effect KEY that the job JOB_ID issued or waits for; it runs on."""
    if absent == (done is not None):
        raise click.UsageError("say either --done JSON or --absent")
    result = None if done is None else _as_json_text(done)
    with session_of(tenant) as session:
        verdict = session.dispatcher.settle(session.tenant, job_id, user_id=None, key=key, result=result, by=by)
    match verdict.word:
        case "settled":
            click.echo(f"{key} is settled as {'absent' if absent else 'done'}; what waited for it runs on")
        case "busy":
            raise JobRefused(f"an attempt may be issuing {key} now; look again when it has ended")
        case "ended":
            raise JobRefused(f"{key} was settled before; what is on record stays")
        case _:
            raise JobRefused(f"job {job_id} of {tenant} has no outside effect {key}")


def _as_json_text(text: str) -> str:
    try:
        return json.dumps(json.loads(text), allow_nan=False)
    except ValueError as problem:
        raise click.BadParameter(f"is not JSON: {problem}", param_hint="--done") from None


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


def _effect_row(effect: dict[str, Any]) -> tuple[Any, ...]:
    state = "needs review" if effect["needs_review"] else effect["state"]
    return (effect["key"], state, effect["calls"], effect["intended_at"], effect["settled_by"])


def _no_such_job(tenant: str, job_id: UUID) -> JobRefused:
    return JobRefused(f"{tenant} has no job {job_id}")
