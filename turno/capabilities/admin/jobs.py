"""/api/admin/jobs, /admin/jobs, /admin/failures and /admin/changes: jobs of many tenants, found and changed."""

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID, uuid4

from flask import Response
from msgspec import Meta

from turno.dispatch.command_across import command_across
from turno.dispatch.search_tenants import FoundInTenants, search_tenants
from turno.jobs.job import Priority, Status
from turno.jobs.label import FAILURES, LABELS, Outcome, found_label, label, outcome
from turno.jobs.moment import moment_of
from turno.jobs.operator_command import OF_DEAD_LETTERS, CommandName, CommandReport, OperatorCommand
from turno.store.api.jobs import JobFilter
from turno.store.operator.job_search import (
    Cursor,
    GroupBy,
    JobsWanted,
    SearchTooLong,
    find_jobs,
    find_quickly,
    first_id,
    group_jobs,
)
from turno.web.api.job_body import Band
from turno.web.api.job_filters import Filters, filter_names, filters_of
from turno.web.auth.principal import Principal
from turno.web.http.json_answers import from_row
from turno.web.http.problems import FieldProblem, Kind, Problem, invalid
from turno.web.http.query import NOT_GIVEN, Moment, PageSize, Text, described, searchable
from turno.web.pages.drawing import draw, go
from turno.web.pages.operator_pages import OperatorPages, OperatorVisit
from turno.web.routes import OperatorCall, Routes
from turno.web.services import as_operator, services

admin_jobs = Routes("admin_jobs", __name__, tag="administration")
job_pages = OperatorPages("operator_jobs", __name__)

MOST_AT_ONCE = 1000  # jobs that one request changes: it is answered when they are
MOST_BY_FORM = 500  # jobs that one press changes, and that are counted before: about a second's work
SHOWN = 50  # jobs or groups of a page
SEARCH_SECONDS = 3.0  # after which a search of the API skips the remaining tenants
PAGE_SEARCH_SECONDS = 0.15  # the same for a page, which then names the filters that narrow the search

Since = Literal["1h", "24h", "7d", "all"]
SINCE: dict[Since, timedelta | None] = {
    "1h": timedelta(hours=1), "24h": timedelta(hours=24), "7d": timedelta(days=7), "all": None
}  # fmt: skip
# What only the jobs' own tenants know.
OF_TENANTS = ("user", "request", "payload")
CHOSEN = ("status", "outcome", "type", "tenant", "error", *OF_TENANTS, "filter", "since")


@dataclass(frozen=True, slots=True)
class Change:
    """A command, and the statuses of its jobs; without statuses it is for failures."""

    command: OperatorCommand
    statuses: frozenset[str] = frozenset()


CHANGES = {
    "retry": Change(OperatorCommand(name="retry")),
    "discard": Change(OperatorCommand(name="discard")),
    "cancel": Change(OperatorCommand(name="cancel"), frozenset({"pending", "running"})),
    "run-now": Change(OperatorCommand(name="reschedule"), frozenset({"pending"})),
    "urgent": Change(OperatorCommand(name="reprioritise", priority=Priority.URGENT), frozenset({"pending"})),
    "low": Change(OperatorCommand(name="reprioritise", priority=Priority.LOW), frozenset({"pending"})),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundJob:
    """A job of some tenant; its own address, with that tenant in X-Schema, has the rest.

    `error` is the error's group: class and first line, without numbers, names in quotation marks and addresses. `at` is
    the time of its end, or of the creation of an open job. `done` and `failed` are items of a failure; `closed_as` is
    set once it was retried or discarded.
    """

    job_id: UUID
    tenant: str
    company: str
    type: str
    status: Status
    outcome: Outcome | None
    done: int | None
    failed: int | None
    error: str | None
    at: datetime
    closed_as: Literal["replayed", "discarded"] | None
    run_at: datetime | None
    parked: bool | None


@dataclass(frozen=True, slots=True)
class FoundPage:
    """Jobs, the latest first; `not_asked` tenants could not be searched in time: name some, or a later `since`."""

    jobs: list[FoundJob]
    next_cursor: str | None
    not_asked: int = 0


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
    filter: Filters = ()


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


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsAsked:
    """The fields of a form of filters; an empty field leaves it free. `request` is a correlation or trace id.

    The outcome `failures` is each outcome of a failure. `at` and `id` are the last job of the previous page, or the
    bounds of a dry run.
    """

    status: Literal["", "pending", "running", "completed", "failed", "cancelled"] = ""
    outcome: Literal["", "failures"] | Outcome = ""
    type: str = ""
    tenant: str = ""
    error: str = ""
    user: str = ""
    request: str = ""
    payload: str = ""
    filter: str = ""
    since: Since = "24h"
    at: datetime = NOT_GIVEN
    id: UUID = NOT_GIVEN
    notice: Text = ""

    @property
    def chosen(self) -> dict[str, str]:
        """What was chosen, as an address says it."""
        return {name: text for name, text in asdict(self).items() if name in CHOSEN}

    @property
    def asks_tenants(self) -> bool:
        """Whether the control schema alone cannot find these jobs."""
        return any(self.text(name) for name in OF_TENANTS)

    @property
    def outcomes(self) -> tuple[str, ...]:
        """Return the chosen outcomes; empty for all jobs."""
        return FAILURES if self.outcome == "failures" else (self.outcome,) if self.outcome else ()

    @property
    def before(self) -> Cursor | None:
        """The last job of the page before."""
        return Cursor(self.at, self.id) if self.at and self.id else None

    def text(self, name: str) -> str:
        """Return what stands in a field, as it can be looked for."""
        return searchable(getattr(self, name))

    def wanted(self, visit: OperatorVisit, *, until: datetime | None = None, waiting: bool = False) -> JobsWanted:
        """Return the jobs of the visitor's companies as they are looked for in the control schema.

        Raises Problem 400 if that is not enough: a filter that was passed over would let in every other job.
        """
        if self.asks_tenants:
            raise invalid([FieldProblem(name, "is not known here") for name in OF_TENANTS if self.text(name)])
        return JobsWanted(
            companies=visit.companies,
            tenants=self.one("tenant"),
            statuses=(self.status,) if self.status else (),
            outcomes=self.outcomes,
            types=self.one("type"),
            error=self.text("error") or None,
            since=self._since,
            until=until,
            waiting=waiting,
            filters=filters_of(self.one("filter")),
        )

    def within_tenants(self, limit: int) -> JobFilter:
        """Return the jobs as each tenant looks for them."""
        since = self._since
        return JobFilter(
            user_id=self.text("user") or None,
            statuses=(Status(self.status),) if self.status else (),
            outcomes=self.outcomes,
            types=self.one("type"),
            correlation_id=self.text("request") or None,
            text=self.text("payload") or None,
            made_from=first_id(since) if since else None,
            filters=filters_of(self.one("filter")),
            limit=limit,
        )

    def one(self, name: str) -> tuple[str, ...]:
        """Return the text of a field as the only value of a filter."""
        text = self.text(name)
        return (text,) if text else ()

    @property
    def _since(self) -> datetime | None:
        window = SINCE[self.since]
        return services().clock() - window if window else None

    @property
    def changes(self) -> list[str]:
        """Return the changes that are possible for each of these jobs."""
        failures = self.status == "failed" or (self.outcomes and set(self.outcomes) <= set(FAILURES))
        return [
            name
            for name, change in CHANGES.items()
            if (self.status in change.statuses and not self.outcomes if change.statuses else failures)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailuresAsked(JobsAsked):
    """The filters of the page, and the common property of a group."""

    by: Literal["error", "type", "tenant"] = "error"


@admin_jobs.operation("GET /api/admin/jobs")
def found(call: OperatorCall, query: FoundQuery) -> FoundPage:
    """List the jobs of all tenants."""
    limit = query.limit
    if query.user or query.correlation_id or query.payload:
        return _searched(call.principal, query)
    with as_operator() as operator:
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
    try:
        priority = Priority[body.priority.upper()] if body.priority else None
        wanted = OperatorCommand(name=body.command, priority=priority, run_at=body.run_at)
    except ValueError as error:
        raise _refused(error) from None
    report = _command(
        wanted,
        _wanted(call, body),
        call.principal.user,
        call.correlation_id,
        dry_run=body.dry_run,
        after=body.cursor,
        limit=body.limit,
    )
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


@job_pages.page("/admin/jobs")
def listed(visit: OperatorVisit, asked: JobsAsked) -> Response:
    """List the jobs that the filters leave, the latest first."""
    if asked.text("payload"):
        _require_admin(visit.principal)
    rows: list[dict[str, Any]] = []
    not_asked, slow = 0, False
    if asked.asks_tenants:
        tenants = asked.one("tenant")
        among = _in_tenants(visit.companies, tenants, asked.within_tenants(SHOWN), PAGE_SEARCH_SECONDS)
        rows, not_asked = [_row_of_tenant(row, visit) for row in among.rows], among.not_asked + len(among.troubles)
    else:
        try:
            with as_operator() as operator:
                rows = find_quickly(operator, asked.wanted(visit), before=asked.before, limit=SHOWN + 1)
        except SearchTooLong:
            slow = True
        now = services().clock()
        rows = [row | {"label": found_label(row, now)} for row in rows]
    return draw(
        "turno/admin/jobs.html",
        visit=visit,
        asked=asked,
        jobs=rows[:SHOWN],
        after=rows[SHOWN - 1] if len(rows) > SHOWN else None,
        not_asked=not_asked,
        slow=slow,
        filters=filter_names(),
        changes=() if asked.asks_tenants or not rows else asked.changes,
    )


@job_pages.page("/admin/failures")
def failures(visit: OperatorVisit, asked: FailuresAsked) -> Response:
    """List failures in groups, and the failed jobs that the filters leave."""
    asked = replace(asked, status="", outcome=asked.outcome or "failures")
    wanted = asked.wanted(visit, waiting=True)
    with as_operator() as operator:
        found = [] if asked.text(asked.by) else group_jobs(operator, wanted, asked.by, limit=SHOWN + 1)
        jobs = find_jobs(operator, wanted, before=asked.before, limit=SHOWN + 1)
    return draw(
        "turno/admin/failures.html",
        visit=visit,
        asked=asked,
        groups=found[:SHOWN],
        many=len(found) > SHOWN,
        jobs=[job | {"label": LABELS[job["outcome"]]} for job in jobs[:SHOWN]],
        after=jobs[SHOWN - 1] if len(jobs) > SHOWN else None,
    )


@job_pages.page("/admin/changes/<name>")
def look(visit: OperatorVisit, name: str, asked: JobsAsked) -> Response:
    """Count the jobs that the change would affect, and show the button of the change."""
    change, until = _change(name), services().clock()
    report = _across(visit, change, asked.wanted(visit, until=until), dry_run=True)
    return draw(
        "turno/admin/change.html",
        visit=visit,
        asked=asked,
        name=name,
        back=_back(visit, change, asked),
        until=until.isoformat(),
        changed=report.changed.total(),
        of_items=report.of_items,
        items=report.items,
        tenants=[(slug, many) for slug, many in report.tenants.most_common() if many],
        refused=report.refused.most_common(),
        troubles=sorted(report.troubles),
        through=report.next_cursor,
    )


@job_pages.form("/admin/changes/<name>")
def do(visit: OperatorVisit, name: str, asked: JobsAsked) -> Response:
    """Change the chosen jobs that the page of the button counted."""
    change = _change(name)
    until = asked.at or services().clock()
    report = _across(visit, change, asked.wanted(visit, until=until), dry_run=False, through=asked.id)
    refused = report.refused.total() + len(report.troubles)
    return go(_back(visit, change, asked, notice=f"{name}.{report.changed.total()}.{refused}"))


def _change(name: str) -> Change:
    if name not in CHANGES:
        raise Problem(Kind.NOT_FOUND, "There is no such command for jobs.")
    return CHANGES[name]


def _back(visit: OperatorVisit, change: Change, asked: JobsAsked, **more: str) -> str:
    path = "/failures" if change.command.name in OF_DEAD_LETTERS else "/jobs"
    return visit.to(path, **asked.chosen, **more)


def _across(
    visit: OperatorVisit, change: Change, wanted: JobsWanted, *, dry_run: bool, through: UUID | None = None
) -> CommandReport:
    by, request_id = visit.principal.user, str(uuid4())
    return _command(change.command, wanted, by, request_id, dry_run=dry_run, through=through, limit=MOST_BY_FORM)


def _command(
    command: OperatorCommand, wanted: JobsWanted, by: str, correlation_id: str, **bounds: Any
) -> CommandReport:
    """Change the jobs; raises Problem 400 for a status that the command is not for."""
    try:
        with as_operator() as operator:
            return command_across(
                operator,
                services().dispatcher,
                services().directory,
                command,
                wanted,
                by=by,
                correlation_id=correlation_id,
                **bounds,
            )
    except ValueError as error:
        raise _refused(error) from None


def _refused(error: ValueError) -> Problem:
    field, _, problem = str(error).partition(": ")
    return invalid([FieldProblem(field, problem) if problem else FieldProblem("command", field)])


def _searched(principal: Principal, asked: FoundQuery) -> FoundPage:
    """Return the jobs of this user, request or payload, of the tenants of the caller's companies."""
    if asked.payload:
        _require_admin(principal)
    if asked.error or asked.waiting or asked.cursor:
        raise invalid([FieldProblem("error", "error, waiting and cursor go without user, correlation_id and payload")])
    wanted = JobFilter(
        user_id=asked.user,
        statuses=asked.status,
        outcomes=asked.outcome,
        types=asked.type,
        correlation_id=asked.correlation_id,
        text=asked.payload,
        made_from=first_id(asked.since) if asked.since else None,
        made_before=first_id(asked.until) if asked.until else None,
        filters=filters_of(asked.filter),
        limit=asked.limit,
    )
    among = _in_tenants(principal.companies, asked.tenant, wanted, SEARCH_SECONDS)
    companies = {tenant.slug: tenant.company for tenant in services().directory.list_active()}
    jobs = [
        from_row(
            FoundJob,
            row,
            job_id=row["id"],
            company=companies[row["tenant"]],
            outcome=outcome(row["status"], row["done"], row["failed"]),
            error=row["error"] and row["error"].get("class"),
            at=row["finished_at"] or row["created_at"],
            closed_as="replayed" if row["successor_id"] else None,
            parked=None,
        )
        for row in among.rows
    ]
    return FoundPage(jobs, None, among.not_asked + len(among.troubles))


def _in_tenants(
    companies: Collection[str] | None, tenants: tuple[str, ...], wanted: JobFilter, within: float
) -> FoundInTenants:
    active = services().directory.list_active()
    return search_tenants(services().connection, active, wanted, companies=companies, tenants=tenants, within=within)


def _row_of_tenant(row: dict[str, Any], visit: OperatorVisit) -> dict[str, Any]:
    error = services().redaction.error(row["error"]) if visit.principal.role != "admin" else row["error"]
    text = None if error is None else f"{error.get('class')}: {error.get('message')}"
    at = row["finished_at"] or row["created_at"]
    return row | {"job_id": row["id"], "label": label(row), "at": at, "error": text, "closed_as": None}


def _require_admin(principal: Principal) -> None:
    """Raise Problem 403 for a search in payloads without the role admin: it finds a secret letter by letter."""
    if principal.role != "admin":
        raise Problem(Kind.OPERATORS_ONLY, "Leave out the parameter payload: it takes the role admin.")


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
        filters=filters_of(asked.filter),
    )


def _cursor(text: str | None) -> Cursor | None:
    if text is None:
        return None
    at, _, job_id = text.partition("~")
    try:
        return Cursor(moment_of(at, services().clock()), UUID(job_id))
    except ValueError:
        raise invalid([FieldProblem("cursor", "is no next_cursor of this list")]) from None
