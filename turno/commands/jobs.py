"""The commands `turno jobs …`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from turno.commands.job_changes import (
    JobRefused,
    cancel,
    discard,
    no_such_job,
    reprioritise,
    reschedule,
    retry,
    run_now,
)
from turno.commands.job_list import list_jobs
from turno.commands.job_logs import logs
from turno.commands.output.jobs_view import as_json, details, error
from turno.commands.output.tables import print_table, printable, text
from turno.commands.submit_job import rerun, submit
from turno.commands.tenant_session import session_of
from turno.environment import read_settings
from turno.jobs.named_handlers import named_handlers
from turno.jobs.redaction import Redaction
from turno.jobs.traceback_text import without_our_frames
from turno.process_name import person
from turno.store.api import effect_review
from turno.store.api import jobs as stored

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

MOST_ITEMS = 1000


tenant_option = click.option("--tenant", required=True, help="Whose jobs.")
json_option = click.option("--json", "json_wanted", is_flag=True, help="Print JSON.")


@click.group()
def jobs() -> None:
    """Submit, list, show, retry, cancel and settle jobs, of one tenant or of many."""


jobs.add_command(submit)


jobs.add_command(list_jobs)
jobs.add_command(logs)
for change in (retry, rerun, cancel, discard, reprioritise, reschedule, run_now):
    jobs.add_command(change)


@jobs.command()
@tenant_option
@json_option
@click.option("--traceback", "traces", is_flag=True, help="Show where each attempt failed, too.")
@click.argument("job_id", type=click.UUID)
def show(*, tenant: str, json_wanted: bool, traces: bool, job_id: UUID) -> None:
    """Show the job JOB_ID with its attempts, the items that failed and its outside effects."""
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
        outside = session.read(lambda reader: effect_review.of_job(reader, job_id, after="", limit=MOST_ITEMS))
    if json_wanted:
        click.echo(as_json({**job, "attempts": attempts, "failed_items": failed, "effects": outside}))
        return
    for name, value in details(job):
        click.echo(f"{name:<13} {text(value)}")
    _section(("attempt", "started", "finished", "outcome", "error"), attempts, _attempt_row)
    for attempt in attempts if traces else ():
        if trace := (attempt["error"] or {}).get("traceback"):
            click.echo(f"\nattempt {attempt['attempt']} failed\n{printable(without_our_frames(trace))}")
    _section(("failed item", "error"), failed, lambda item: (item["key"], error(item["error"])))
    _section(("outside effect", "state", "calls", "since", "settled by"), outside, _effect_row)


@jobs.command()
@tenant_option
@click.option("--done", metavar="JSON", help="It happened, and its call would have returned this.")
@click.option("--absent", is_flag=True, help="It did not happen and no longer can: it may be issued again.")
@click.option("--by", default=person, help="Whose word it is; by default the user of this shell.")
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
            raise JobRefused(
                f"job {job_id} of {tenant} has no outside effect {key}; `turno jobs show` names its effects"
            )


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
