"""The command `turno job list`: list the jobs of one or all tenants, or group their errors."""

from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import click

from turno.commands.filters import filtered, filters_of, one_tenant, wanted
from turno.commands.output.jobs_view import LIST_HEADERS, list_row
from turno.commands.output.results import show
from turno.commands.tenant_session import AllTenants, all_tenants, session_of
from turno.dispatch.across_tenants import search_tenants
from turno.jobs.label import found_label
from turno.store.api import jobs as stored
from turno.store.operator.job_search import find_jobs, first_id, group_jobs

FOUND_HEADERS = ("tenant", "job", "type", "state", "failed items", "at", "error")
GROUP_HEADERS = ("jobs", "failed items", "tenants", "first", "last", "example", "of", "name")


@click.command("list", epilog="Example: turno job list --all --status failed --group-by error")
@click.option("--all", "everywhere", is_flag=True, help="Jobs of all tenants, or of --company or --tenant.")
@filtered
@click.option("--user", help="Only this user's.")
@click.option("--correlation-id", help="Only jobs of the request, or of the trace, with this id.")
@click.option("--payload", "text", metavar="TEXT", help="Only jobs with this text in the payload.")
@click.option("--needs-review", is_flag=True, help="Only jobs that wait for the decision of a person.")
@click.option(
    "--group-by",
    type=click.Choice(["error", "type", "tenant", "company"]),
    help="Count the jobs of --all or --tenant, the most first; by error: only failures neither retried nor discarded.",
)
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True)
def list_jobs(*, everywhere: bool, group_by: str | None, limit: int, **given: Any) -> None:
    """List jobs, newest first.

    With --all, failed, open and ended jobs are read from the control schema; --user, --correlation-id, --payload and
    --needs-review search each tenant in turn: add --since or --company if there are thousands.
    """
    tenant = None if everywhere else one_tenant(given)
    if tenant and not group_by:
        if given["companies"] or given["error"]:
            raise click.UsageError("--company and --error go with --all or --group-by")
        with session_of(tenant) as session:
            rows = session.read(lambda reader: stored.search(reader, _filter(given, limit)))
        show(rows, LIST_HEADERS, [list_row(row) for row in rows])
        return
    with all_tenants() as tenants:
        lines: list[tuple[Any, ...]]
        if group_by:
            _no_tenant_asked(given, "--group-by")
            chosen = replace(wanted(given), waiting=group_by == "error")
            rows = group_jobs(tenants.operator, chosen, group_by, limit=limit)  # type: ignore[arg-type]
            lines = [(row["jobs"], row["items"] or "", row["tenants"], row["first"], row["last"], row["example"],
                      row["example_tenant"], row["name"]) for row in rows]  # fmt: skip
            show(rows, GROUP_HEADERS, lines)
        elif _asks_tenants(given):
            rows = _searched(tenants, given, limit)
            lines = [(row["tenant"], *list_row(row)) for row in rows]
            show(rows, ("tenant", *LIST_HEADERS), lines)
        else:
            rows = find_jobs(tenants.operator, wanted(given), limit=limit)
            now = datetime.now(UTC)
            lines = [(row["tenant"], row["job_id"], row["type"], row["closed_as"] or found_label(row, now),
                      row["failed"] or "", row["at"], row["error"]) for row in rows]  # fmt: skip
            show(rows, FOUND_HEADERS, lines)


def _searched(tenants: AllTenants, given: dict[str, Any], limit: int) -> list[dict[str, Any]]:
    if given["error"]:
        raise click.UsageError("--error cannot be combined with --user, --correlation-id, --payload or --needs-review")
    found = search_tenants(
        lambda: nullcontext(tenants.connection),
        tenants.directory.list_active(),
        _filter(given, limit),
        companies=given["companies"] or None,
        tenants=given["tenants"],
    )
    for slug, why in found.troubles.items():
        click.echo(f"{slug}: {why}", err=True)
    return found.rows


def _filter(given: dict[str, Any], limit: int) -> stored.JobFilter:
    return stored.JobFilter(
        user_id=given["user"],
        statuses=given["statuses"],
        outcomes=given["outcomes"],
        types=given["types"],
        needs_review=given["needs_review"],
        correlation_id=given["correlation_id"],
        text=given["text"],
        made_from=given["since"] and first_id(given["since"]),
        made_before=given["until"] and first_id(given["until"]),
        filters=filters_of(given),
        limit=limit,
    )


def _asks_tenants(given: dict[str, Any]) -> bool:
    return any((given["user"], given["correlation_id"], given["text"], given["needs_review"]))


def _no_tenant_asked(given: dict[str, Any], option: str) -> None:
    if _asks_tenants(given):
        raise click.UsageError(f"{option} knows no --user, --correlation-id, --payload and --needs-review")
