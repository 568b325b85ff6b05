"""/api/admin/jobs: the jobs of many tenants, found, grouped and changed together."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from msgspec import Meta

from turno.dispatch.command_across import command_across
from turno.jobs.job import Priority, Status
from turno.jobs.label import Outcome
from turno.jobs.moment import moment_of
from turno.jobs.operator_command import CommandName, OperatorCommand
from turno.store.operator.job_search import Cursor, GroupBy, JobsWanted, find_jobs, group_jobs
from turno.web.api.found_jobs import FoundJob, FoundPage, searched
from turno.web.api.job_body import Band
from turno.web.http.json_answers import from_row
from turno.web.http.problems import FieldProblem, invalid
from turno.web.http.query import NOT_GIVEN, Moment, PageSize, Text, described
from turno.web.routes import OperatorCall, Routes
from turno.web.services import lend_operator, services

admin_jobs = Routes("admin_jobs", __name__, tag="administration")

MOST_AT_ONCE = 1000  # jobs that one request changes: it is answered when they are


@dataclass(frozen=True, slots=True, kw_only=True)
class JobGroup:
    """Jobs with a common property, and the latest of them as an example.

    `items` are the failed items of those that were neither retried nor discarded.
    """

    name: str
    jobs: int
    items: int
    tenants: int
    first: datetime | None
    last: datetime | None
    example: UUID
    example_tenant: str


@dataclass(frozen=True, slots=True)
class JobGroups:
    """Groups, the largest first."""

    groups: list[JobGroup]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Which jobs of which tenants."""

    status: Annotated[tuple[Status, ...], described("Only jobs in this status; may be repeated.")] = ()
    outcome: Annotated[tuple[Outcome, ...], described("Only jobs that ended so; may be repeated.")] = ()
    type: Annotated[tuple[Text, ...], described("Only jobs of this type; may be repeated.")] = ()
    tenant: Annotated[tuple[Text, ...], described("Only this tenant's jobs; may be repeated.")] = ()
    error: Annotated[Text, described("Only failures with this error: a group as listed, or its class.")] = NOT_GIVEN
    since: Annotated[Moment, described("Only what ended since then; of open jobs, what was made since.")] = NOT_GIVEN
    until: Annotated[Moment, described("Only what ended before.")] = NOT_GIVEN
    waiting: Annotated[bool, described("Only failures neither retried nor discarded.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundQuery(Found):
    """A page of jobs. The first three are looked for in one tenant after another, and have no further pages."""

    user: Annotated[Text, described("Only this user's.")] = NOT_GIVEN
    correlation_id: Annotated[Text, described("Only those of the request, or of the trace, with this id.")] = NOT_GIVEN
    payload: Annotated[Text, described("For admins: only those whose payload contains this.")] = NOT_GIVEN
    cursor: Annotated[Text, described("The `next_cursor` of the page before.")] = NOT_GIVEN
    limit: PageSize = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsQuery(Found):
    """By what jobs are grouped."""

    by: Annotated[GroupBy, described("What the jobs of a group have in common.")] = "error"
    limit: PageSize = 50


Name = Annotated[str, Meta(min_length=1, max_length=255)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandBody:
    """A command and its jobs: `retry` and `discard` are for failures, the others for open jobs.

    `retry` continues failed jobs and runs the failed items of the others; `outcome` chooses between them. `cancel` also
    requests running ones to stop. `reschedule` without `run_at` lets them run now. A `dry_run` counts without a change.
    """

    command: CommandName
    dry_run: bool = False
    status: tuple[Status, ...] = ()
    outcome: tuple[Outcome, ...] = ()
    type: tuple[Name, ...] = ()
    tenant: tuple[Name, ...] = ()
    error: Name | None = None
    since: Moment | None = None
    until: Moment | None = None
    priority: Band | None = None
    run_at: Moment | None = None
    cursor: UUID | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST_AT_ONCE)] = MOST_AT_ONCE


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandDone:
    """The numbers of jobs that were changed, skipped and refused, by the word of the reason, and of each tenant.

    `of_items` of the changed jobs ran to their end and have failed `items`. `troubles` has the error of each tenant
    that could not be read. `next_cursor` is the cursor of the next request, null after the last job.
    """

    command: CommandName
    dry_run: bool
    changed: dict[str, int]
    skipped: dict[str, int]
    refused: dict[str, int]
    tenants: dict[str, int]
    of_items: int
    items: int
    troubles: dict[str, str]
    next_cursor: UUID | None


@admin_jobs.operation("GET /api/admin/jobs")
def found(call: OperatorCall, query: FoundQuery) -> FoundPage:
    """List the jobs of all tenants."""
    limit = query.limit
    if query.user or query.correlation_id or query.payload:
        return searched(call, query)
    with lend_operator()() as operator:
        rows = find_jobs(operator, _wanted(call, query), before=_cursor(query.cursor), limit=limit + 1)
    following = None
    if len(rows) > limit:
        last = rows[limit - 1]
        following = f"{last['at'].isoformat()}~{last['job_id']}"
    return FoundPage([from_row(FoundJob, row) for row in rows[:limit]], following)


@admin_jobs.operation("GET /api/admin/jobs/groups")
def groups(call: OperatorCall, query: GroupsQuery) -> JobGroups:
    """Group the jobs of all tenants.

    By error, so that what failed tonight is one line for each cause; or by type, tenant or company.
    """
    with lend_operator()() as operator:
        rows = group_jobs(operator, _wanted(call, query), query.by, limit=query.limit)
    return JobGroups([from_row(JobGroup, row) for row in rows])


@admin_jobs.operation(
    "POST /api/admin/jobs/commands",
    about=f"At most {MOST_AT_ONCE} jobs in a request; `next_cursor` is the `cursor` of the next request. Each tenant's "
    "jobs are changed in transactions of their own, and the audit has the operator.",
)
def command(call: OperatorCall, body: CommandBody) -> CommandDone:
    """Change many jobs of many tenants."""
    try:
        wanted = OperatorCommand(
            name=body.command,
            priority=Priority[body.priority.upper()] if body.priority else None,
            run_at=body.run_at,
        )
        with lend_operator()() as operator:
            report = command_across(
                operator,
                services().dispatcher,
                services().directory,
                wanted,
                _wanted(call, body),
                by=call.principal.user,
                correlation_id=call.correlation_id,
                dry_run=body.dry_run,
                after=body.cursor,
                limit=body.limit,
            )
    except ValueError as error:
        field, _, problem = str(error).partition(": ")
        raise invalid([FieldProblem(field, problem) if problem else FieldProblem("command", field)]) from None
    return CommandDone(
        command=body.command,
        dry_run=report.dry_run,
        changed=dict(report.changed),
        skipped=dict(report.skipped),
        refused=dict(report.refused),
        tenants=dict(report.tenants),
        of_items=report.of_items,
        items=report.items,
        troubles=report.troubles,
        next_cursor=report.next_cursor,
    )


def _wanted(call: OperatorCall, asked: Any) -> JobsWanted:
    return JobsWanted(
        companies=call.principal.companies,
        tenants=asked.tenant,
        statuses=asked.status,
        outcomes=asked.outcome,
        types=asked.type,
        error=asked.error,
        since=asked.since,
        until=asked.until,
        waiting=getattr(asked, "waiting", False),
    )


def _cursor(text: str | None) -> Cursor | None:
    if text is None:
        return None
    at, _, job_id = text.partition("~")
    try:
        return Cursor(moment_of(at, services().clock()), UUID(job_id))
    except ValueError:
        raise invalid([FieldProblem("cursor", "is no next_cursor of this list")]) from None
