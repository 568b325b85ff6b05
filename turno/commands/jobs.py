"""The commands `turno job …`; the commands that change jobs are in job_changes.py."""

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from time import sleep
from typing import Any, get_args
from uuid import UUID

import click

from turno.commands.failures import printable
from turno.commands.job_changes import cancel, change, discard, no_such_job, rerun, retry, submit
from turno.commands.options import filtered, required_tenant, wanted
from turno.commands.output import print_table, show, text, wants_json
from turno.commands.tenant_session import all_tenants, session_of
from turno.dispatch.across_tenants import search_tenants, within_tenant
from turno.environment import read_settings
from turno.jobs.error_record import without_our_frames
from turno.jobs.handler import named_handlers
from turno.jobs.job import Priority, Status
from turno.jobs.label import control_label, label, outcome, waiting_for
from turno.jobs.outcome import UNLIMITED
from turno.jobs.redaction import Redaction
from turno.store.api import jobs as stored
from turno.store.operator.job_search import GroupBy, JobsWanted, find_jobs, group_jobs
from turno.tracing import trace_id
from turno.wiring.logins import operator_session

MOST_ITEMS = 1000


@click.group()
def jobs() -> None:
    """Submit, list, show, retry and cancel jobs, of one tenant or of many."""


for command in (submit, retry, rerun, cancel, discard, change):
    jobs.add_command(command)


@jobs.command("show", epilog="Example: turno job show --tenant suc0001 0192d3a4-5b6c-7d8e-9f01-23456789abcd")
@click.option("--tenant", required=True, help="Tenant of the job.")
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
    headers = ("attempt", "started", "finished", "outcome", "error")
    values = [(*(row[name] for name in ("attempt", "started_at", "finished_at", "outcome")), error(row["error"]))
              for row in attempts]  # fmt: skip
    _section(headers, values)
    for attempt in attempts if traces else ():
        if trace := (attempt["error"] or {}).get("traceback"):
            click.echo(f"\nattempt {attempt['attempt']} failed\n{printable(without_our_frames(trace))}")
    _section(("failed item", "error"), [(item["key"], error(item["error"])) for item in failed])


def _section(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    if rows:
        click.echo()
        print_table(headers, rows)


CONTROL_HEADERS = ("tenant", "job", "type", "state", "closed", "failed items", "at", "error")
GROUP_HEADERS = ("jobs", "failed items", "tenants", "first", "last", "example", "of", "name")
GROUP_BY: tuple[GroupBy, ...] = get_args(GroupBy)


@jobs.command("list", epilog="Example: turno job list --all --status failed --group-by error")
@click.option("--all", "everywhere", is_flag=True, help="Jobs of all tenants, or of --company or --tenant.")
@filtered
@click.option("--user", help="Only jobs of this user.")
@click.option("--correlation-id", help="Only jobs of the request, or of the trace, with this id.")
@click.option("--payload", "text", metavar="TEXT", help="Only jobs with this text in the payload.")
@click.option("--needs-review", is_flag=True, help="Only jobs that wait for the decision of a person.")
@click.option(
    "--group-by",
    type=click.Choice(GROUP_BY),
    help="Count the jobs of --all or --tenant, the most first; by error: only failures neither retried nor discarded.",
)
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True)
def list_jobs(*, everywhere: bool, needs_review: bool, group_by: GroupBy | None, limit: int, **given: Any) -> None:
    """List jobs, newest first.

    With --all, failed, open and ended jobs are read from the control schema; --user, --correlation-id, --payload and
    --needs-review search each tenant in turn: add --since or --company if there are thousands.
    """
    tenant = None if everywhere else required_tenant(given)
    chosen = wanted(given)
    within = replace(within_tenant(chosen, limit), needs_review=needs_review)
    searched = bool(chosen.of_tenants or needs_review)
    if group_by:
        if searched:
            raise click.UsageError("--group-by knows no --user, --correlation-id, --payload and --needs-review")
        with operator_session(read_settings()) as operator:
            rows = group_jobs(operator, replace(chosen, waiting=group_by == "error"), group_by, limit=limit)
        show(rows, GROUP_HEADERS, [
            (row["jobs"], row["items"] or "", row["tenants"], row["first"], row["last"], row["example"],
             row["example_tenant"], row["name"]) for row in rows
        ])  # fmt: skip
    elif tenant:
        if chosen.companies or chosen.error:
            raise click.UsageError("--company and --error go with --all or --group-by")
        with session_of(tenant) as session:
            rows = session.read(lambda reader: stored.search(reader, within))
        show(rows, LIST_HEADERS, [list_row(row) for row in rows])
    elif searched:
        rows = _searched(chosen, within)
        show(rows, ("tenant", *LIST_HEADERS), [(row["tenant"], *list_row(row)) for row in rows])
    else:
        with operator_session(read_settings()) as operator:
            rows = find_jobs(operator, chosen, limit=limit)
        now = datetime.now(UTC)
        show(rows, CONTROL_HEADERS, [
            (row["tenant"], row["job_id"], row["type"], control_label(row, now), row["closed_as"] or "",
             row["failed"] or "", row["at"], row["error"]) for row in rows
        ])  # fmt: skip


def _searched(chosen: JobsWanted, within: stored.JobFilter) -> list[dict[str, Any]]:
    """Return the jobs of many tenants, and print the error of each tenant that cannot be read."""
    if chosen.error:
        raise click.UsageError("--error cannot be combined with --user, --correlation-id, --payload or --needs-review")
    with all_tenants() as tenants:
        result = search_tenants(
            lambda: nullcontext(tenants.connection),
            tenants.directory.list_active(),
            within,
            companies=chosen.companies,
            tenants=chosen.tenants,
        )
    for slug, why in result.troubles.items():
        click.echo(f"{slug}: {why}", err=True)
    return result.rows


PAGE = 1000  # lines
LOOK_SECONDS = 1.0  # between two looks for further lines
LATE_SECONDS = 3.0  # after a job's end in which its last lines may still be written


@jobs.command(epilog="Example: turno job logs --tenant suc0001 --follow 0192d3a4-5b6c-7d8e-9f01-23456789abcd")
@click.option("--tenant", required=True, help="Tenant of the job.")
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
    line = printable(row["line"])
    click.echo(f"{text(row['at'])} {row['attempt']}#{row['number']} {row['level']} {printable(row['logger'])}: {line}")


LIST_HEADERS = ("job", "type", "state", "progress", "user", "created", "seconds", "error")


def list_row(job: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a job as a row under LIST_HEADERS."""
    return (
        job["id"],
        job["type"],
        label(job),
        progress(job),
        job["user_id"],
        job["created_at"],
        seconds(job),
        error(job["error"]),
    )


def details(job: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the fields of a job, line by line, without empty fields."""
    lines = [
        ("job", job["id"]),
        ("type", job["type"]),
        ("state", label(job)),
        ("outcome", outcome(job["status"], job["reason"], job["done"], job["failed"])),
        ("reason", job["reason"]),
        ("waiting for", waiting_for(job)),
        ("progress", " ".join(filter(None, (progress(job), job["message"])))),
        ("user", job["user_id"]),
        ("priority", Priority(job["priority"]).word),
        ("attempts", attempts_of(job)),
        ("created", job["created_at"]),
        ("runs at", job["run_at"] if job["status"] == Status.PENDING else None),
        ("expires", job["expires_at"]),
        ("started", job["started_at"]),
        ("finished", job["finished_at"]),
        ("seconds", seconds(job)),
        ("parts", parts(job)),
        *((name, ", ".join(value) if isinstance(value, list) else value) for name, value in job["attributes"].items()),
        ("comes from", job["parent_id"]),
        ("continued by", job["successor_id"]),
        ("correlation", job["correlation_id"]),
        ("trace", trace_id(job["trace_context"])),
        ("error", error(job["error"])),
        ("payload", None if job.get("payload") is None else json.dumps(job["payload"])),
        ("result", None if job["result"] is None else json.dumps(job["result"])),
    ]
    return [(name, value) for name, value in lines if value not in (None, "")]


def attempts_of(job: Mapping[str, Any]) -> str:
    """Return the number of attempts, and of attempts that ended in an error or in a crash."""
    errors = (
        f"{job['errors']} errors"
        if job["max_attempts"] == UNLIMITED
        else f"{job['errors']} of {job['max_attempts']} errors"
    )
    return f"{job['attempt']} ({errors}, {job['crashes']} crashes)"


def progress(job: Mapping[str, Any]) -> str:
    """Return the progress of a job, such as `120/500, 3 failed`; empty before its first report."""
    if not job["total"]:
        return ""
    failed = f", {job['failed']} failed" if job["failed"] else ""
    return f"{job['done'] + job['failed']}/{job['total']}{failed}"


def parts(job: Mapping[str, Any]) -> str:
    """Return the progress of the parts of a job, such as `3 of 10 ended, 1 failed`."""
    if not job["parts"]:
        return ""
    failed = f", {job['parts']['failed']} failed" if job["parts"]["failed"] else ""
    return f"{job['parts']['ended']} of {job['parts']['total']} ended{failed}"


def seconds(job: Mapping[str, Any]) -> float | None:
    """Return the running time of all attempts of a job, in seconds."""
    return None if job["run_seconds"] is None else round(job["run_seconds"], 1)


def error(record: Mapping[str, Any] | None) -> str:
    """Return a stored error on one line."""
    if record is None:
        return ""
    reference = f" ({record['reference']})" if record.get("reference") else ""
    cause = f", caused by {record['cause']}" if record.get("cause") else ""
    return f"{record.get('class', 'Error')}: {record.get('message', '')}{cause}{reference}"
