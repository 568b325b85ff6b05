"""/admin/jobs, /admin/failures and /admin/changes: search, group and change the jobs of many tenants."""

from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID, uuid4

from flask import Response

from turno.capabilities.admin.jobs import SearchResult, change, refused_as_problem, search
from turno.dispatch.across_tenants import applicable
from turno.jobs.job import Priority
from turno.jobs.label import FAILURES, LABELS, Outcome
from turno.jobs.operator_command import OF_DEAD_LETTERS, CommandReport, OperatorCommand
from turno.store.operator.job_search import Cursor, JobsWanted, SearchTooLong, count_targets, find_jobs, group_jobs
from turno.web.api.jobs import filter_names, filters_of
from turno.web.pages.drawing import draw, go
from turno.web.pages.page_routes import OperatorPages, OperatorVisit
from turno.web.requests import NOT_GIVEN, Text, searchable
from turno.web.responses import Kind, Problem
from turno.web.services import as_operator, services

job_pages = OperatorPages("operator_jobs", __name__)

MOST_BY_FORM = 500  # jobs of one form, counted by its page: about a second's work
SHOWN = 50  # jobs of a page
FAILURES_SHOWN = 25  # groups and jobs: the first view has at most 100 kB

Since = Literal["1h", "24h", "7d", "all"]
SINCE: dict[Since, timedelta | None] = {
    "1h": timedelta(hours=1), "24h": timedelta(hours=24), "7d": timedelta(days=7), "all": None
}  # fmt: skip
CHOSEN = ("status", "outcome", "type", "tenant", "error", "user", "request", "payload", "filter", "since")


@dataclass(frozen=True, slots=True)
class Change:
    """A command, and the statuses or the outcome of its jobs; without both it is for failures."""

    command: OperatorCommand
    statuses: frozenset[str] = frozenset()
    outcome: str = ""


CHANGES = {
    "retry": Change(OperatorCommand(name="retry")),
    "discard": Change(OperatorCommand(name="discard")),
    "rerun": Change(OperatorCommand(name="rerun"), outcome="completed"),
    "cancel": Change(OperatorCommand(name="cancel"), frozenset({"pending", "running"})),
    "run-now": Change(OperatorCommand(name="reschedule"), frozenset({"pending"})),
    "urgent": Change(OperatorCommand(name="reprioritise", priority=Priority.URGENT), frozenset({"pending"})),
    "low": Change(OperatorCommand(name="reprioritise", priority=Priority.LOW), frozenset({"pending"})),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsQuery:
    """The fields of a form of filters; an empty field leaves it free. `request` is a correlation or trace id.

    The outcome `failures` is each outcome of a failure. `at` and `id` are the last job of the previous page, or the
    bounds of a dry run, which begins behind the job `after`.
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
    after: UUID = NOT_GIVEN
    notice: Text = ""

    @property
    def chosen(self) -> dict[str, str]:
        """The filters, as parameters of an address."""
        return {name: text for name, text in asdict(self).items() if name in CHOSEN}

    @property
    def asks_tenants(self) -> bool:
        """Whether the control schema alone cannot find these jobs."""
        return any(map(searchable, (self.user, self.request, self.payload)))

    @property
    def outcomes(self) -> tuple[str, ...]:
        """The chosen outcomes; empty for all jobs."""
        return FAILURES if self.outcome == "failures" else (self.outcome,) if self.outcome else ()

    @property
    def before(self) -> Cursor | None:
        """The last job of the previous page."""
        return Cursor(self.at, self.id) if self.at and self.id else None

    @property
    def changes(self) -> list[str]:
        """The changes that are possible for each of these jobs."""
        failures = self.status == "failed" or (self.outcomes and set(self.outcomes) <= set(FAILURES))
        return [
            name
            for name, change in CHANGES.items()
            if (
                self.outcome == change.outcome and self.status in {"", "completed"}
                if change.outcome
                else self.status in change.statuses and not self.outcomes
                if change.statuses
                else failures
            )
        ]

    def wanted(self, visit: OperatorVisit, *, until: datetime | None = None, waiting: bool = False) -> JobsWanted:
        """Return the filters for the jobs of the visitor's companies."""
        window = SINCE[self.since]
        return JobsWanted(
            companies=visit.companies,
            tenants=_terms(self.tenant),
            statuses=_terms(self.status),
            outcomes=self.outcomes,
            types=_terms(self.type),
            error=searchable(self.error) or None,
            since=services().clock() - window if window else None,
            until=until,
            waiting=waiting,
            user=searchable(self.user) or None,
            correlation_id=searchable(self.request) or None,
            text=searchable(self.payload) or None,
            filters=filters_of(_terms(self.filter)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FailuresQuery(JobsQuery):
    """The filters of the page, and the common property of a group."""

    by: Literal["error", "type", "tenant"] = "error"


@job_pages.page("/admin/jobs")
def listed(visit: OperatorVisit, query: JobsQuery) -> Response:
    """List the jobs that the filters leave, the latest first."""
    slow = False
    try:
        result = search(visit.principal, query.wanted(visit), before=query.before, limit=SHOWN + 1, page=True)
    except SearchTooLong:
        slow, result = True, SearchResult([])
    return draw(
        "turno/admin/jobs.html",
        visit=visit,
        query=query,
        jobs=result.jobs[:SHOWN],
        after=result.jobs[SHOWN - 1] if len(result.jobs) > SHOWN and not query.asks_tenants else None,
        not_searched=result.not_searched,
        slow=slow,
        filters=filter_names(),
        values=visit.filter_values(),
        changes=() if query.asks_tenants or not result.jobs else query.changes,
    )


@job_pages.page("/admin/failures")
def failures(visit: OperatorVisit, query: FailuresQuery) -> Response:
    """List failures in groups, and the failed jobs that the filters leave."""
    query = replace(query, status="", outcome=query.outcome or "failures")
    wanted = query.wanted(visit, waiting=True)
    with refused_as_problem(), as_operator() as operator:
        jobs = find_jobs(operator, wanted, before=query.before, limit=FAILURES_SHOWN + 1)
        chosen = searchable(getattr(query, query.by))
        groups = [] if chosen else group_jobs(operator, wanted, query.by, limit=FAILURES_SHOWN + 1)
    return draw(
        "turno/admin/failures.html",
        visit=visit,
        query=query,
        groups=groups[:FAILURES_SHOWN],
        values=visit.filter_values(),
        many=len(groups) > FAILURES_SHOWN,
        jobs=[job | {"label": LABELS[job["outcome"]]} for job in jobs[:FAILURES_SHOWN]],
        after=jobs[FAILURES_SHOWN - 1] if len(jobs) > FAILURES_SHOWN else None,
    )


@job_pages.page("/admin/changes/<name>")
def look(visit: OperatorVisit, name: str, query: JobsQuery) -> Response:
    """Count the jobs that the change would affect, and show the button that changes the first of them."""
    change, until = _change(name), services().clock()
    wanted = query.wanted(visit, until=until)
    report = _across(visit, change, wanted, dry_run=True, after=query.after)
    matching = report.changed.total()
    if report.next_cursor:
        with as_operator() as operator:
            matching = count_targets(operator, applicable(change.command, wanted), after=query.after)
    return draw(
        "turno/admin/change.html",
        visit=visit,
        query=query,
        name=name,
        back=_back(visit, change, query),
        until=until.isoformat(),
        changed=report.changed.total(),
        matching=matching,
        of_items=report.of_items,
        items=report.items,
        tenants=[(slug, many) for slug, many in report.tenants.most_common() if many],
        refused=report.refused.most_common(),
        troubles=sorted(report.troubles),
        through=report.next_cursor,
    )


@job_pages.form("/admin/changes/<name>")
def do(visit: OperatorVisit, name: str, query: JobsQuery) -> Response:
    """Change the jobs that the page of the button counted."""
    change = _change(name)
    until = query.at or services().clock()
    wanted = query.wanted(visit, until=until)
    report = _across(visit, change, wanted, dry_run=False, after=query.after, through=query.id)
    refused = report.refused.total() + len(report.troubles)
    notice = f"{name}.{report.changed.total()}.{refused}"
    if query.id:  # more jobs matched: the next page begins behind the last one
        return go(visit.to(f"/changes/{name}", **query.chosen, after=query.id, notice=notice))
    return go(_back(visit, change, query, notice=notice))


def _change(name: str) -> Change:
    if name not in CHANGES:
        raise Problem(Kind.NOT_FOUND, "There is no such command for jobs.")
    return CHANGES[name]


def _back(visit: OperatorVisit, change: Change, query: JobsQuery, **more: str) -> str:
    path = "/failures" if change.command.name in OF_DEAD_LETTERS else "/jobs"
    return visit.to(path, **query.chosen, **more)


def _across(visit: OperatorVisit, wanted_change: Change, wanted: JobsWanted, **bounds: Any) -> CommandReport:
    return change(visit.principal, wanted_change.command, wanted, str(uuid4()), limit=MOST_BY_FORM, **bounds)


def _terms(text: str) -> tuple[str, ...]:
    """Return the text of a field as the only value of a filter, or no value."""
    return (term,) if (term := searchable(text)) else ()
