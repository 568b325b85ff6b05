"""/api/admin/jobs: search, group and change the jobs of many tenants."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from msgspec import Meta

from turno.dispatch.across_tenants import FoundInTenants, command_across, search_tenants, within_tenant
from turno.jobs.job import Priority, Status
from turno.jobs.label import Label, Outcome, control_label, label, outcome
from turno.jobs.moment import moment_of
from turno.jobs.operator_command import CommandName, CommandReport, OperatorCommand
from turno.store.operator.job_search import Cursor, GroupBy, JobsWanted, Row, find_jobs, find_quickly, group_jobs
from turno.web.api.job_body import Band
from turno.web.api.jobs import Filters, filters_of
from turno.web.auth import Principal
from turno.web.requests import NOT_GIVEN, Moment, PageSize, Text, described
from turno.web.responses import FieldProblem, Kind, Problem, from_row, invalid
from turno.web.routes import OperatorCall, Routes
from turno.web.services import as_operator, services

admin_jobs = Routes("admin_jobs", __name__, tag="administration")

MOST_AT_ONCE = 1000  # jobs of one request, changed before its answer
SEARCH_SECONDS = 3.0  # after which a search of the API skips the remaining tenants
PAGE_SEARCH_SECONDS = 0.15  # the same for a page, which then names the filters that narrow the search


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundJob:
    """A job of some tenant; its own address, with that tenant in X-Schema, has the rest.

    `error` is the group of the error: class and first line, without numbers, names in quotation marks and addresses; in
    a search by user, correlation id or payload its class and message. `at` is the time of its end, or of the creation
    of an open job. `done` and `failed` are items of a failure; `closed_as` is set after a retry or discard.
    """

    job_id: UUID
    tenant: str
    company: str
    type: str
    status: Status
    outcome: Outcome | None
    label: Label
    done: int | None
    failed: int | None
    error: str | None
    at: datetime
    closed_as: Literal["replayed", "discarded"] | None
    run_at: datetime | None
    parked: bool | None


@dataclass(frozen=True, slots=True)
class FoundPage:
    """Jobs, the latest first; `not_searched` tenants could not be searched in time: name some, or a later `since`."""

    jobs: list[FoundJob]
    next_cursor: str | None
    not_searched: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobGroup:
    """Jobs with a common property, and the latest of them as an example.

    `items` are the failed items of the jobs that were neither retried nor discarded.
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
class FoundFilter:
    """Filters of the jobs of all tenants."""

    status: Annotated[tuple[Status, ...], described("Only jobs in this status; may be repeated.")] = ()
    outcome: Annotated[tuple[Outcome, ...], described("Only jobs that ended so; may be repeated.")] = ()
    type: Annotated[tuple[Text, ...], described("Only jobs of this type; may be repeated.")] = ()
    tenant: Annotated[tuple[Text, ...], described("Only this tenant's jobs; may be repeated.")] = ()
    error: Annotated[Text, described("Only failures with this error: a group as listed, or its class.")] = NOT_GIVEN
    since: Annotated[Moment, described("Only jobs that ended, or open jobs created, since then.")] = NOT_GIVEN
    until: Annotated[Moment, described("Only jobs that ended before.")] = NOT_GIVEN
    waiting: Annotated[bool, described("Only failures neither retried nor discarded.")] = False
    filter: Filters = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundQuery(FoundFilter):
    """A page of jobs. The first three are looked for in one tenant after another, and have no further pages."""

    user: Annotated[Text, described("Only this user's.")] = NOT_GIVEN
    correlation_id: Annotated[Text, described("Only jobs of the request, or of the trace, with this id.")] = NOT_GIVEN
    payload: Annotated[Text, described("For admins: only jobs with this text in the payload.")] = NOT_GIVEN
    cursor: Annotated[Text, described("The `next_cursor` of the page before.")] = NOT_GIVEN
    limit: PageSize = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsQuery(FoundFilter):
    """The common property of the jobs of a group."""

    by: Annotated[GroupBy, described("The common property of the jobs of a group.")] = "error"
    limit: PageSize = 50


Name = Annotated[str, Meta(min_length=1, max_length=255)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandBody:
    """A command and its jobs: `retry` and `discard` are for failures, `rerun` for completed jobs, others for open jobs.

    `retry` continues failed jobs and runs the failed items of completed jobs; `outcome` chooses between them. `rerun`
    runs completed jobs again, each once, without their finished items. `cancel`
    also requests running jobs to stop. `reschedule` without `run_at` lets them run now. A `dry_run` changes nothing.
    """

    command: CommandName
    dry_run: bool = False
    status: tuple[Status, ...] = ()
    outcome: tuple[Outcome, ...] = ()
    type: tuple[Name, ...] = ()
    tenant: tuple[Name, ...] = ()
    error: Name | None = None
    filter: tuple[Name, ...] = ()
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
    among = search(call.principal, _wanted(call, query), before=_cursor(query.cursor), limit=limit + 1)
    jobs = among.jobs[:limit]
    following = None
    if len(among.jobs) > limit and not (query.user or query.correlation_id or query.payload):
        following = f"{jobs[-1]['at'].isoformat()}~{jobs[-1]['job_id']}"
    return FoundPage([from_row(FoundJob, job) for job in jobs], following, among.not_searched)


@admin_jobs.operation("GET /api/admin/jobs/groups")
def groups(call: OperatorCall, query: GroupsQuery) -> JobGroups:
    """Group the jobs of all tenants.

    By error, type, tenant or company; by error, each cause of failures is one line.
    """
    with as_operator() as operator:
        rows = group_jobs(operator, _wanted(call, query), query.by, limit=query.limit)
    return JobGroups([from_row(JobGroup, row) for row in rows])


@admin_jobs.operation(
    "POST /api/admin/jobs/commands",
    about=f"At most {MOST_AT_ONCE} jobs in a request; `next_cursor` is the `cursor` of the next request. Each tenant's "
    "jobs are changed in transactions of their own, and the audit has the operator.",
)
def command(call: OperatorCall, body: CommandBody) -> CommandDone:
    """Change many jobs of many tenants."""
    with refused_as_problem():
        priority = Priority[body.priority.upper()] if body.priority else None
        wanted = OperatorCommand(name=body.command, priority=priority, run_at=body.run_at)
    report = change(
        call.principal,
        wanted,
        _wanted(call, body),
        call.correlation_id,
        dry_run=body.dry_run,
        after=body.cursor,
        limit=body.limit,
    )
    counts = {field.name: getattr(report, field.name) for field in fields(report)}
    return CommandDone(command=body.command, **counts)


def _wanted(call: OperatorCall, query: FoundFilter | CommandBody) -> JobsWanted:
    return JobsWanted(
        companies=call.principal.companies,
        tenants=query.tenant,
        statuses=query.status,
        outcomes=query.outcome,
        types=query.type,
        error=query.error,
        since=query.since,
        until=query.until,
        waiting=getattr(query, "waiting", False),
        user=getattr(query, "user", None),
        correlation_id=getattr(query, "correlation_id", None),
        text=getattr(query, "payload", None),
        filters=filters_of(query.filter),
    )


def _cursor(text: str | None) -> Cursor | None:
    if text is None:
        return None
    at, _, job_id = text.partition("~")
    try:
        return Cursor(moment_of(at, services().clock()), UUID(job_id))
    except ValueError:
        raise invalid([FieldProblem("cursor", "is no next_cursor of this list")]) from None


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Jobs, the latest first, and the number of tenants that were not searched."""

    jobs: list[Row]
    not_searched: int = 0


def search(
    principal: Principal, wanted: JobsWanted, *, before: Cursor | None, limit: int, page: bool = False
) -> SearchResult:
    """Return the wanted jobs with their labels; a search within tenants has no further pages.

    Raises Problem 400 or 403 for filters that are not allowed together or to this role, and SearchTooLong for a page.
    """
    if wanted.of_tenants:
        return _within_tenants(principal, wanted, before, limit, PAGE_SEARCH_SECONDS if page else SEARCH_SECONDS)
    find = find_quickly if page else find_jobs
    with as_operator() as operator:
        rows = find(operator, wanted, before=before, limit=limit)
    now = services().clock()
    return SearchResult([row | {"label": control_label(row, now)} for row in rows])


def change(
    principal: Principal, command: OperatorCommand, wanted: JobsWanted, correlation_id: str, **bounds: Any
) -> CommandReport:
    """Change the wanted jobs as `command_across`; raises Problem 400 for a filter that the command does not allow."""
    with refused_as_problem(), as_operator() as operator:
        return command_across(
            operator,
            services().dispatcher,
            services().directory,
            command,
            wanted,
            by=principal.user,
            correlation_id=correlation_id,
            **bounds,
        )


@contextmanager
def refused_as_problem() -> Iterator[None]:
    """Raise the ValueError of a filter or a command as Problem 400 that names its field."""
    try:
        yield
    except ValueError as error:
        field, _, problem = str(error).partition(": ")
        raise invalid([FieldProblem(field, problem) if problem else FieldProblem("command", field)]) from None


def _within_tenants(
    principal: Principal, wanted: JobsWanted, before: Cursor | None, limit: int, seconds: float
) -> SearchResult:
    if wanted.text and principal.role != "admin":
        # Repeated searches in payloads would find a redacted secret letter by letter.
        raise Problem(Kind.OPERATORS_ONLY, "Leave out the parameter payload: it takes the role admin.")
    if wanted.error or wanted.waiting or before:
        raise invalid([FieldProblem("error", "error, waiting and cursor go without user, correlation_id and payload")])
    active = services().directory.list_active()
    result: FoundInTenants = search_tenants(
        services().connection,
        active,
        within_tenant(wanted, limit),
        companies=principal.companies,
        tenants=wanted.tenants,
        within=seconds,
    )
    companies = {tenant.slug: tenant.company for tenant in active}
    jobs = [_as_control_row(row, companies[row["tenant"]], principal) for row in result.rows]
    return SearchResult(jobs, result.not_searched + len(result.troubles))


def _as_control_row(row: Row, company: str, principal: Principal) -> Row:
    """Return a job of a tenant in the form of a job of the control schema."""
    error = row["error"] if principal.role == "admin" else services().redaction.error(row["error"])
    return row | {
        "job_id": row["id"],
        "company": company,
        "label": label(row),
        "outcome": outcome(row["status"], row["reason"], row["done"], row["failed"]),
        "error": None if error is None else f"{error.get('class')}: {error.get('message')}",
        "at": row["finished_at"] or row["created_at"],
        "closed_as": "replayed" if row["successor_id"] else None,
        "parked": None,
    }
