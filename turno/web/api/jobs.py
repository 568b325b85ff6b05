"""GET /api/jobs, /api/jobs/<id>, and the history of a job: its items, events and attempts."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal
from uuid import UUID

from flask import Response, request

from turno.jobs.job import Status
from turno.jobs.label import Outcome
from turno.store.api import jobs as stored
from turno.web.api.job_body import RETRY_WHILE_OPEN, ErrorBody, JobBody, error_body, job_body
from turno.web.auth import Principal
from turno.web.requests import NOT_GIVEN, JobPageQuery, KeyCursor, NumberCursor, PageSize, Text, described, read_id
from turno.web.responses import FieldProblem, Kind, Problem, answer, from_row, invalid, no_such_job, page_of
from turno.web.routes import Answer, Call, Routes
from turno.web.services import WaitQuery, at, services

Filters = Annotated[
    tuple[Text, ...],
    described("Only jobs with this value of a capability's filter, as NAME:VALUE such as tag:march; may be repeated."),
]


def filter_names() -> list[str]:
    """Return the names of the filters of the enabled capabilities."""
    return list(services().job_filters)


def filters_of(given: Iterable[str]) -> dict[str, list[str]]:
    """Return the values of each filter; raises Problem 400 for a filter of no enabled capability."""
    known, filters = filter_names(), dict[str, list[str]]()
    for text in given:
        name, _, value = text.partition(":")
        if name not in known or not value:
            names = ", ".join(known) or "none"
            raise invalid([FieldProblem("filter", f"must be NAME:VALUE with a name of: {names}; not {text[:60]!r}")])
        filters.setdefault(name, []).append(value)
    return filters


jobs = Routes("jobs", __name__, tag="jobs")

EVERY_USER = "*"


@dataclass(frozen=True, slots=True)
class JobPage:
    """Jobs, newest first; `next_cursor` is null on the last page."""

    jobs: list[JobBody]
    next_cursor: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsQuery(JobPageQuery):
    """Which jobs are listed."""

    status: Annotated[tuple[Status, ...], described("Only jobs in this status; may be repeated.")] = ()
    outcome: Annotated[tuple[Outcome, ...], described("Only jobs that ended so; may be repeated.")] = ()
    type: Annotated[tuple[Text, ...], described("Only jobs of this type; may be repeated.")] = ()
    user: Annotated[Text, described(f"For operators: the user of the jobs; `{EVERY_USER}` for every user.")] = NOT_GIVEN
    part_of: Annotated[UUID, described("Only the parts that this job was split into.")] = NOT_GIVEN
    needs_review: Annotated[bool, described("Only jobs that wait for the decision of a person.")] = False
    filter: Filters = ()


@jobs.operation("GET /api/jobs", problems=(Kind.OPERATORS_ONLY,))
def index(call: Call, query: JobsQuery) -> JobPage:
    """List jobs.

    Your own jobs, newest first, without results. Operators may ask for another user's.
    """
    wanted = stored.JobFilter(
        user_id=_listed_user(call.scope.principal, query.user),
        statuses=query.status,
        outcomes=query.outcome,
        types=query.type,
        needs_review=query.needs_review,
        part_of=query.part_of,
        filters=filters_of(query.filter),
        before=query.cursor,
        limit=query.limit + 1,
    )
    with call.scope.reading() as reader:
        rows = stored.search(reader, wanted)
    body = partial(job_body, root=at(""), operator=call.scope.principal.operator)
    return JobPage(*page_of([call.scope.seen(row) for row in rows], query.limit, body, "id"))


@jobs.operation(
    "GET /api/jobs/<job_id>",
    answers={
        200: Answer(
            about="The job.",
            body=JobBody,
            headers={
                "ETag": "The job's revision and label, and the role of an operator.",
                "Retry-After": "Seconds until the next request.",
            },
        ),
        304: Answer(about="Nothing changed since the state that If-None-Match names."),
    },
    request_headers=("If-None-Match",),
    problems=(Kind.NOT_FOUND,),
)
def show(call: Call, query: WaitQuery, job_id: str) -> Response:
    """Show one job.

    Ask again after `Retry-After` seconds while the job is open; send `If-None-Match` to hear only of changes, or
    `wait` to be answered when it has ended.
    """
    operator = call.scope.principal.operator
    body = job_body(call.scope.seen(find_job(call, job_id)), at(""), operator=operator)
    response = answer(body)
    if not body.status.ended:
        response.headers["Retry-After"] = RETRY_WHILE_OPEN
    response.headers["Cache-Control"] = "private, no-cache"
    response.vary.update(("Authorization", "Cookie", "X-Schema"))
    # Operators receive more data of the same state; a browser may change from user to operator.
    response.set_etag(f"{body.etag}.{call.scope.principal.role}" if operator else body.etag, weak=True)
    if body.status.ended or not query.wait:
        response.make_conditional(request)
        return response
    return services().live.await_end(call, query, body.job_id, response)


def find_job(call: Call, job_id: str) -> dict[str, Any]:
    """Return a stored job that the caller may see; raises 404 for any other job."""
    wanted = read_id(job_id, no_such_job())
    with call.scope.reading() as reader:
        row = stored.find(reader, wanted, call.scope.visible_user)
    if row is None:
        raise no_such_job()
    return row


def _listed_user(principal: Principal, wanted: str | None) -> str | None:
    if wanted is None or wanted == principal.user:
        return principal.user
    if not principal.operator:
        raise Problem(Kind.OPERATORS_ONLY, "Leave out the parameter user: only operators see other users' jobs.")
    return None if wanted == EVERY_USER else str(wanted)


job_history = Routes("job_history", __name__, tag="jobs")


State = Literal["done", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class ItemBody:
    """One item of a batch; `ref` is its result, such as an invoice's number."""

    key: str
    state: State
    ref: str | None
    error: ErrorBody | None
    at: datetime


@dataclass(frozen=True, slots=True)
class ItemPage:
    """Items in the order of their keys; a number at their end counts by its value, so 9 comes before 40."""

    items: list[ItemBody]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class EventBody:
    """One change of a job's status; `old_status` is null for its birth."""

    old_status: Status | None
    new_status: Status
    attempt: int
    reason: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class EventPage:
    """Changes in the order they happened."""

    events: list[EventBody]
    next_cursor: int | None


@dataclass(frozen=True, slots=True)
class AttemptBody:
    """One run of a job; `outcome` is null while it lasts."""

    attempt: int
    worker: str | None
    started_at: datetime
    finished_at: datetime | None
    outcome: Literal["completed", "error", "crashed", "cancelled", "rescheduled", "released"] | None
    error: ErrorBody | None


@dataclass(frozen=True, slots=True)
class AttemptPage:
    """Attempts in order."""

    attempts: list[AttemptBody]
    next_cursor: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemsQuery:
    """Which items are listed."""

    state: Annotated[State, described("Only items in this state.")] = NOT_GIVEN
    cursor: KeyCursor = ""
    limit: PageSize = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryQuery:
    """A page of a job's history."""

    cursor: NumberCursor = 0
    limit: PageSize = 50


Row = dict[str, Any]


@job_history.operation("GET /api/jobs/<job_id>/items", problems=(Kind.NOT_FOUND,))
def items(call: Call, query: ItemsQuery, job_id: str) -> ItemPage:
    """List a batch's items."""
    with _visible_job(call, job_id) as (reader, job):
        rows = stored.items(reader, job, query.state, query.cursor, query.limit + 1)

    def body(row: Row) -> ItemBody:
        return from_row(ItemBody, row, error=_error_body(call, row))

    return ItemPage(*page_of(rows, query.limit, body, "key"))


@job_history.operation("GET /api/jobs/<job_id>/events", problems=(Kind.NOT_FOUND,))
def events(call: Call, query: HistoryQuery, job_id: str) -> EventPage:
    """List a job's changes of status."""
    with _visible_job(call, job_id) as (reader, job):
        rows = stored.events(reader, job, after=query.cursor, limit=query.limit + 1)
    return EventPage(*page_of(rows, query.limit, partial(from_row, EventBody), "id"))


@job_history.operation("GET /api/jobs/<job_id>/attempts", problems=(Kind.NOT_FOUND,))
def attempts(call: Call, query: HistoryQuery, job_id: str) -> AttemptPage:
    """List a job's attempts.

    Operators also see which worker ran each.
    """
    with _visible_job(call, job_id) as (reader, job):
        rows = stored.attempts(reader, job, after=query.cursor, limit=query.limit + 1)

    def body(row: Row) -> AttemptBody:
        worker = row["worker"] if call.scope.principal.operator else None
        return from_row(AttemptBody, row, worker=worker, error=_error_body(call, row))

    return AttemptPage(*page_of(rows, query.limit, body, "attempt"))


@contextmanager
def _visible_job(call: Call, job_id: str) -> Iterator[tuple[stored.Reader, UUID]]:
    """Lend a reader of a visible job's history, with the id of the job; raises 404 for any other job."""
    wanted = read_id(job_id, no_such_job())
    with call.scope.reading() as reader:
        if not stored.exists(reader, wanted, call.scope.visible_user):
            raise no_such_job()
        yield reader, wanted


def _error_body(call: Call, row: Row) -> ErrorBody | None:
    return error_body(call.scope.seen(row)["error"], operator=call.scope.principal.operator)
