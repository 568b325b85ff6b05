"""The commands of `turno job` that submit and change jobs: a job by its id, or with --all each job of the filters."""

import re
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from getpass import getuser
from typing import Any
from uuid import UUID

import click

from turno.commands.options import (
    MOMENT,
    by_option,
    filtered,
    parsed_payload,
    refused_payload,
    required_tenant,
    wanted,
    with_options,
)
from turno.commands.output import print_message
from turno.commands.tenant_session import TenantSession, all_tenants, session_of
from turno.dispatch.across_tenants import command_across
from turno.environment import read_settings
from turno.errors import InvalidPayload, NotEnqueued, TurnoError
from turno.jobs.converter import check_payload
from turno.jobs.handler import JobHandler, named_handlers
from turno.jobs.job import Priority
from turno.jobs.label import counted
from turno.jobs.new_job import IDEMPOTENCY_KEY, NewJob, untimely
from turno.jobs.operator_command import CommandReport, OperatorCommand
from turno.store.api import jobs as stored

REFUSALS = {
    "ended": "it has ended already",
    "running": "it is running",
    "needs review": "it waits for the decision of a person",
    "unchanged": "it is so already",
    "discarded before": "its dead letter was discarded already",
    "replayed": "it was replayed already",
    "locked": "another session has its rows; try again in a moment",
    "quota": "its user has as many open jobs as pending_jobs_per_user of TURNO_LIMITS",
    "not_retryable": "it has not ended, nothing is left to do, or another job of its unique key is open",
}


class JobRefused(TurnoError):
    """The job is not there, or its state does not allow this."""


def no_such_job(tenant: str, job_id: UUID) -> JobRefused:
    """Return the error for an id that a tenant does not know."""
    return JobRefused(f"{tenant} has no job {job_id}")


def changing(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command its JOB_ID or --all with the filters, and --dry-run and --by."""
    return with_options(
        command,
        (
            click.argument("job_id", type=click.UUID, required=False),
            click.option("--all", "everywhere", is_flag=True, help="Every job that the filters leave, of all tenants."),
            filtered,
            click.option("--dry-run", is_flag=True, help="Change nothing, and count the same."),
            by_option,
        ),
    )


@click.command(epilog="Example: turno job retry --all --type send_letters --since 2h")
@changing
def retry(**given: Any) -> int:
    """Make a new job that continues the ended job JOB_ID: it repeats no completed work.

    With --all every failed job, and the failed items of every other job, unless retried or discarded before; --outcome
    chooses between them. Limits of users do not count.
    """
    return _change(OperatorCommand(name="retry"), given)


@click.command(epilog="Example: turno job cancel --all --type send_letters --status pending --dry-run")
@click.option("--reason", default="cancelled by an operator", show_default=True)
@changing
def cancel(reason: str, **given: Any) -> int:
    """Cancel the waiting job JOB_ID, or ask it to stop if it is running."""
    return _change(OperatorCommand(name="cancel", reason=reason), given)


@click.command(epilog="Example: turno job discard --all --type send_letters --since 7d")
@changing
def discard(**given: Any) -> int:
    """Close the failed job JOB_ID, or the failed items of JOB_ID, without a retry; retention then removes the job."""
    return _change(OperatorCommand(name="discard"), given)


@click.command("set", epilog="Example: turno job set --priority urgent --all --type send_invoices --status pending")
@click.option("--priority", type=click.Choice([priority.word for priority in Priority]), help="New priority.")
@click.option("--at", "run_at", type=MOMENT, metavar="TIME", help="New earliest start, such as +10m; now: run it now.")
@changing
def change(priority: str | None, run_at: datetime | None, **given: Any) -> int:
    """Change the priority or the earliest start of the waiting job JOB_ID."""
    if (priority is None) == (run_at is None):
        raise click.UsageError("give either --priority or --at")
    if priority is not None:
        return _change(OperatorCommand(name="reprioritise", priority=Priority[priority.upper()]), given)
    # Without a time the statement takes the database's clock.
    at = None if run_at is not None and run_at <= datetime.now(UTC) else run_at
    return _change(OperatorCommand(name="reschedule", run_at=at), given)


def _change(command: OperatorCommand, given: dict[str, Any]) -> int:
    if given["everywhere"] == (given["job_id"] is not None):
        raise click.UsageError("name one JOB_ID of a --tenant, or say --all")
    return _change_many(command, given) if given["everywhere"] else _change_job(command, given)


def _change_job(command: OperatorCommand, given: dict[str, Any]) -> int:
    tenant, job_id = required_tenant(given), given["job_id"]
    filters = given.keys() - {"tenants", "job_id", "everywhere", "dry_run", "by"}
    options = click.get_current_context().command.params
    if left := [option.opts[0] for option in options if option.name in filters and given[option.name]]:
        raise click.UsageError(f"{left[0]} chooses among many: it goes with --all")
    with session_of(tenant) as session:
        (report,) = session.dispatcher.command(
            session.tenant, command, [job_id], by=given["by"], dry_run=given["dry_run"], within_limits=True
        )
    would = "would be " if given["dry_run"] else ""
    match report.verdict:
        case "accepted":
            print_message(f"job {report.made} {'would continue' if would else 'continues'} {job_id}")
        case "replayed" if report.made is not None:
            print_message(f"job {report.made} continues {job_id} already")
        case "requested":
            print_message(f"job {job_id} is running and {would or 'was '}asked to stop")
        case "cancelled" | "discarded" | "changed":
            print_message(f"job {job_id} {would or 'is '}{report.verdict}")
        case "unknown":
            raise no_such_job(tenant, job_id)
        case "limit":
            text = f"job {job_id} cannot be retried now: the limit {report.exceeded} is reached"
            raise JobRefused(f"{text}; wait, or raise it in TURNO_LIMITS")
        case "ended":
            raise JobRefused(f"job {job_id} has ended already; run `turno job show`")
        case word:
            raise JobRefused(f"job {job_id} cannot be {_PAST[command.name]}: {REFUSALS.get(word, word)}")
    return 0


_PAST = {
    "retry": "retried", "rerun": "run again", "discard": "discarded", "cancel": "cancelled",
    "reprioritise": "reprioritised", "reschedule": "rescheduled",
}  # fmt: skip


def _change_many(command: OperatorCommand, given: dict[str, Any]) -> int:
    with all_tenants() as tenants:
        try:
            report = command_across(
                tenants.operator,
                tenants.dispatcher,
                tenants.directory,
                command,
                wanted(given),
                by=given["by"],
                dry_run=given["dry_run"],
            )
        except ValueError as problem:
            raise click.UsageError(f"--{problem}") from None
    _print(report, _PAST[command.name])
    for slug, why in report.troubles.items():
        click.echo(f"{slug}: {why}", err=True)
    return int(bool(report.troubles))


def _print(report: CommandReport, past: str) -> None:
    would = "would be " if report.dry_run else ""
    tenants = counted(sum(1 for many in report.tenants.values() if many), "tenant")
    of = f" of {tenants}" if report.changed else ""
    items = f", {report.of_items:,} of them for {counted(report.items, 'failed item')}" if report.items else ""
    print_message(f"{counted(report.changed.total(), 'job')}{of} {would}{past}{items}{_by_word(report.changed)}")
    for word, verdicts in (("skipped", report.skipped), ("refused", report.refused)):
        if verdicts:
            reasons = "; ".join(f"{many:,}: {REFUSALS.get(name, name)}" for name, many in verdicts.most_common())
            print_message(f"{verdicts.total():,} {would}{word}: {reasons}")
    for slug, many in report.tenants.most_common():
        if many:
            print_message(f"  {slug} {many:,}")


def _by_word(changed: Counter[str]) -> str:
    return f" ({', '.join(f'{name} {many:,}' for name, many in changed.most_common())})" if len(changed) > 1 else ""


class NotSubmitted(TurnoError):
    """The job was not made; the message states the reason."""


def _key(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    if value is not None and not re.fullmatch(IDEMPOTENCY_KEY, value):
        raise click.BadParameter(f"{value[:60]!r}: expected 1 to 255 letters, digits and signs", context, option)
    return value


@click.command(epilog="Example: turno job submit --tenant suc0001 --key june send_letters")
@click.option("--tenant", required=True, help="Tenant of the job.")
@click.option(
    "--payload", default="{}", metavar="JSON", help="The handler's fields; `-` reads them from standard input."
)
@click.option("--user", default=getuser, help="Submitting user; by default the user of this shell.")
@click.option(
    "--key",
    callback=_key,
    help="With the same key the same job is made once, however often this is called.",
)
@click.option(
    "--unique-for",
    metavar="SECONDS|open|'for ever'",
    help="For how long the same request is one job; without --key it is the same if its payload is.",
)
@click.option("--queue", help="Another of the queues that jobs of this type may wait in.")
@click.option("--priority", type=click.Choice([priority.name.lower() for priority in Priority]), default="normal")
@click.option("--run-at", type=MOMENT, metavar="TIME", help="Earliest start: 2030-01-31T09:00:00-03:00, or +10m.")
@click.argument("job_type", metavar="TYPE")
def submit(
    *,
    tenant: str,
    payload: str,
    user: str,
    key: str | None,
    unique_for: str | None,
    queue: str | None,
    priority: str,
    run_at: datetime | None,
    job_type: str,
) -> None:
    """Submit a job of TYPE and print its id. With --key a repeated call prints the first job's id."""
    handler = named_handlers(read_settings().handlers).handler(job_type)
    new = _new_job(
        handler,
        parsed_payload(payload),
        user_id=user,
        priority=priority,
        run_at=run_at,
        idempotency_key=key,
        unique_for=int(unique_for) if unique_for and unique_for.isdecimal() else unique_for,
        queue=queue,
    )
    with session_of(tenant) as session:
        late = untimely(run_at, None, datetime.now(UTC))
        # A used key returns its job at any later time, as POST does.
        if late and not (key and session.read(lambda reader: stored.find_by_key(reader, user, handler.type, key))):
            raise NotSubmitted("; ".join(f"--{field.replace('_', '-')} {problem}" for field, problem in late))
        _submit(session, new)


@click.command(epilog="Example: turno job rerun --all --type send_letters --since 2h --dry-run")
@click.option("--payload", metavar="JSON", help="Edited payload; `-` reads it from standard input.")
@click.option("--user", help="User of the new job; by default the user of this shell.")
@click.option("--skip-finished", is_flag=True, help="Skip the items that JOB_ID has done; for its own user, once.")
@changing
def rerun(*, payload: str | None, user: str | None, skip_finished: bool, **given: Any) -> int:
    """Submit the ended job JOB_ID again, with the same or an edited payload, and print the id of the new job.

    The new job does all of the work again; `turno job retry` does the unfinished part. With --all every completed job
    runs again, once and for its own user, and skips its finished items.
    """
    if given["everywhere"] or skip_finished:
        if payload is not None or user is not None:
            raise click.UsageError("--payload and --user go without --all and --skip-finished")
        return _change(OperatorCommand(name="rerun"), given)
    if given["dry_run"] or given["job_id"] is None:
        raise click.UsageError("name one JOB_ID of a --tenant; --dry-run goes with --all or --skip-finished")
    _rerun_whole(required_tenant(given), given["job_id"], payload, user or getuser())
    return 0


def _rerun_whole(tenant: str, job_id: UUID, payload: str | None, user: str) -> None:
    with session_of(tenant) as session:
        old = session.read(lambda reader: stored.find(reader, job_id, None))
        if old is None:
            raise NotSubmitted(f"{tenant} has no job {job_id}")
        if old["finished_at"] is None:
            raise NotSubmitted(f"job {job_id} has not ended; wait for its end, or cancel it")
        given = (
            session.read(lambda reader: stored.payload(reader, job_id)) if payload is None else parsed_payload(payload)
        )
        handler = named_handlers(read_settings().handlers).handler(old["type"])
        _submit(session, _new_job(handler, given, user_id=user, priority=Priority(old["priority"]), parent_id=job_id))


def _submit(session: TenantSession, new: NewJob) -> None:
    """Submit the job and print its id; raises NotSubmitted."""
    verdict = session.dispatcher.submit(session.tenant, new)
    match verdict.word:
        case "accepted" | "replayed":
            print_message(str(verdict.job_id), job_id=verdict.job_id, verdict=verdict.word)
        case "conflict":
            key = new.idempotency_key
            raise NotSubmitted(f"the key {key} was used for another payload by job {verdict.job_id}; choose a new key")
        case _:
            raise NotSubmitted(
                f"{new.user_id} has as many open jobs as pending_jobs_per_user of TURNO_LIMITS; cancel one or wait"
            )


def _new_job(handler: type[JobHandler[Any]], payload: Any, **options: Any) -> NewJob:
    """Return the job with its payload in the canonical form; raises NotSubmitted with each problem."""
    try:
        return NewJob.of(handler, check_payload(handler, payload), **options)
    except NotEnqueued as problem:
        raise NotSubmitted(str(problem)) from None
    except InvalidPayload as error:
        raise NotSubmitted(refused_payload(handler.type, error)) from None
