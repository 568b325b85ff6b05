"""An operator's search and command over many tenants: each tenant in separate transactions."""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any
from uuid import UUID

import psycopg

from turno.dispatch.dispatcher import Dispatcher
from turno.jobs.label import FAILURES
from turno.jobs.operator_command import OF_DEAD_LETTERS, CommandReport, OperatorCommand
from turno.store.api.jobs import JobFilter, Row, search
from turno.store.operator.job_search import JobsWanted, Target, first_id, targets
from turno.store.outage import apart, in_short, unreachable
from turno.tenancy.identity.directory import Directory, UnknownTenant
from turno.tenancy.identity.session import as_api
from turno.tenancy.identity.tenant import Tenant

log = logging.getLogger(__name__)

AT_ONCE = 200  # jobs of a tenant in one transaction, which holds their locks
ALL = 1_000_000_000


def applicable(command: OperatorCommand, wanted: JobsWanted) -> JobsWanted:
    """Return which of these jobs the command is about; raises ValueError if their status allows none of it."""
    if command.name in OF_DEAD_LETTERS:
        if set(wanted.statuses) - {"failed", "completed"}:
            raise ValueError(f"status: {command.name} is for failed jobs and completed ones with failed items")
        if set(wanted.outcomes) - set(FAILURES) or not wanted.ended & set(FAILURES):
            raise ValueError(f"outcome: {command.name} is for {', '.join(FAILURES)}")
        return replace(wanted, waiting=True)
    if command.name == "rerun":
        return _completed(wanted)
    allowed = ("pending", "running") if command.name == "cancel" else ("pending",)
    if set(wanted.statuses) - set(allowed):
        raise ValueError(f"status: {command.name} is for jobs that are {' or '.join(allowed)}")
    if wanted.error is not None:
        raise ValueError(f"error: {command.name} is for open jobs, which have no error")
    if wanted.outcomes:
        raise ValueError(f"outcome: {command.name} is for open jobs, which have no outcome")
    return replace(wanted, statuses=wanted.statuses or allowed)


def _completed(wanted: JobsWanted) -> JobsWanted:
    if set(wanted.statuses) - {"completed"}:
        raise ValueError("status: rerun is for completed jobs; retry continues failed ones")
    if set(wanted.outcomes) - {"completed"}:
        raise ValueError("outcome: rerun is for completed; retry continues the failed items of the others")
    if wanted.error is not None:
        raise ValueError("error: rerun is for completed jobs, which have no error")
    return replace(wanted, outcomes=("completed",))


def command_across(
    operator: psycopg.Connection[Any],
    dispatcher: Dispatcher,
    directory: Directory,
    command: OperatorCommand,
    wanted: JobsWanted,
    *,
    by: str,
    correlation_id: str | None = None,
    dry_run: bool = False,
    after: UUID | None = None,
    through: UUID | None = None,
    limit: int = ALL,
    progress: Callable[[CommandReport], None] = lambda _report: None,
) -> CommandReport:
    """Apply the command to each present job of the filter, up to `limit`, and report the verdicts.

    Each tenant's jobs are changed in separate transactions of up to AT_ONCE jobs, each with its row of the audit. A
    command that was stopped half-way may be repeated: changed jobs no longer match. An error of a tenant is reported,
    and the command continues with the next tenant. Raises ValueError as `applicable` does.
    """
    report = CommandReport(dry_run=dry_run)
    seen, last = 0, after
    for page in targets(operator, applicable(command, wanted), after=after, through=through, limit=limit):
        items = {target.job_id: target.items for target in page}
        for slug, job_ids in _by_tenant(page):
            if slug in report.troubles:
                continue
            try:
                answers = dispatcher.command(
                    directory.find(slug), command, job_ids, by=by, correlation_id=correlation_id, dry_run=dry_run
                )
            except UnknownTenant as error:
                report.troubles[slug] = str(error)
            except psycopg.Error as error:
                if unreachable(error):
                    raise
                log.warning("%s refused for a tenant: %s", command.name, in_short(error), extra={"tenant": slug})
                report.troubles[slug] = in_short(error)
            else:
                report.add(slug, answers, items)
                progress(report)
        seen, last = seen + len(page), page[-1].job_id
    if seen >= limit:
        report.next_cursor = last
    return report


def _by_tenant(page: Iterable[Target]) -> Iterator[tuple[str, list[UUID]]]:
    of_tenant: defaultdict[str, list[UUID]] = defaultdict(list)
    for target in page:
        of_tenant[target.tenant].append(target.job_id)
    for slug, job_ids in sorted(of_tenant.items()):
        for first in range(0, len(job_ids), AT_ONCE):
            yield slug, job_ids[first : first + AT_ONCE]


NO_END = float("inf")


@dataclass(slots=True)
class FoundInTenants:
    """The jobs, newest first, each with its `tenant`; the errors of tenants, and the number of unsearched tenants."""

    rows: list[Row] = field(default_factory=list)
    troubles: dict[str, str] = field(default_factory=dict)
    not_searched: int = 0


def within_tenant(wanted: JobsWanted, limit: int) -> JobFilter:
    """Return the filters for the search in one tenant; the tenants and companies are the caller's."""
    return JobFilter(
        user_id=wanted.user,
        statuses=wanted.statuses,
        outcomes=wanted.outcomes,
        types=wanted.types,
        correlation_id=wanted.correlation_id,
        text=wanted.text,
        made_from=first_id(wanted.since) if wanted.since else None,
        made_before=first_id(wanted.until) if wanted.until else None,
        filters=wanted.filters,
        limit=limit,
    )


def search_tenants(
    connection: Callable[[], AbstractContextManager[psycopg.Connection[Any]]],
    among: Iterable[Tenant],
    wanted: JobFilter,
    *,
    companies: Collection[str] | None = None,
    tenants: Sequence[str] = (),
    within: float = NO_END,
) -> FoundInTenants:
    """Return the newest `wanted.limit` jobs of the tenants of these companies, as each tenant's API role.

    A tenant takes some milliseconds: after `within` seconds the remaining tenants are `not_searched`, and so is a
    tenant with a search that exceeds the remaining time. `connection` lends a session of the web.
    """
    searched = [
        tenant
        for tenant in among
        if (companies is None or tenant.company in companies) and (not tenants or tenant.slug in tenants)
    ]
    result, until = FoundInTenants(), monotonic() + within
    with connection() as session:
        for number, tenant in enumerate(searched):
            left = until - monotonic()
            if left <= 0:
                result.not_searched = len(searched) - number
                break
            with apart(result.troubles, tenant.slug):
                try:
                    with as_api(session, tenant) as reader:
                        if left != NO_END:
                            limit = str(int(1000 * left) + 1)
                            reader.execute("SELECT set_config('statement_timeout', %s, true)", (limit,))
                        result.rows += [row | {"tenant": tenant.slug} for row in search(reader, wanted)]
                except psycopg.errors.QueryCanceled:
                    result.not_searched = len(searched) - number
                    break
    result.rows = sorted(result.rows, key=lambda row: row["id"], reverse=True)[: wanted.limit]
    return result
