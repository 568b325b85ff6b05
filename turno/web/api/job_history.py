"""GET /api/jobs/<id>/items, /events and /attempts: what happened to a job."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from flask import Response

from turno.jobs.job import Status
from turno.store.api import jobs as stored
from turno.tenancy.identity.session import as_api
from turno.web.api.job_body import ErrorBody, error_body
from turno.web.api.job_id import read_id
from turno.web.http.json_answers import answer
from turno.web.http.problems import Kind, no_such_job
from turno.web.http.query import NOT_GIVEN, KeyCursor, NumberCursor, PageSize, described
from turno.web.routes import Answer, Call, Operation, Routes
from turno.web.services import services

job_history = Routes("job_history", __name__, tag="jobs")


@dataclass(frozen=True, slots=True)
class ItemBody:
    """One item of a batch; `ref` is what the work made of it, such as an invoice's number."""

    key: str
    state: Literal["done", "failed", "skipped"]
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


State = Literal["done", "failed", "skipped"]


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


ITEMS = Operation(
    method="GET",
    rule="/api/jobs/<job_id>/items",
    summary="List a batch's items",
    query=ItemsQuery,
    answers={200: Answer(about="A page of items.", body=ItemPage)},
    problems=(Kind.NOT_FOUND,),
)

EVENTS = Operation(
    method="GET",
    rule="/api/jobs/<job_id>/events",
    summary="List a job's changes of status",
    query=HistoryQuery,
    answers={200: Answer(about="A page of changes.", body=EventPage)},
    problems=(Kind.NOT_FOUND,),
)

ATTEMPTS = Operation(
    method="GET",
    rule="/api/jobs/<job_id>/attempts",
    summary="List a job's attempts",
    about="Operators also see which worker ran each.",
    query=HistoryQuery,
    answers={200: Answer(about="A page of attempts.", body=AttemptPage)},
    problems=(Kind.NOT_FOUND,),
)

Rows = list[dict[str, Any]]


@job_history.guarded(ITEMS)
def items(call: Call, job_id: str) -> Response:
    """List a batch's items."""
    wanted = call.query
    rows, more = _page(
        call,
        job_id,
        lambda reader, job, limit: stored.items(reader, job, wanted.state, wanted.cursor, limit),
    )
    operator = call.scope.principal.operator
    found = [
        ItemBody(row["key"], row["state"], row["ref"], error_body(row["error"], operator=operator), row["at"])
        for row in rows
    ]
    return answer(ItemPage(found, found[-1].key if more else None))


@job_history.guarded(EVENTS)
def events(call: Call, job_id: str) -> Response:
    """List a job's changes of status."""
    rows, more = _page(
        call, job_id, lambda reader, job, limit: stored.events(reader, job, after=call.query.cursor, limit=limit)
    )
    found = [EventBody(row["old_status"], row["new_status"], row["attempt"], row["reason"], row["at"]) for row in rows]
    return answer(EventPage(found, rows[-1]["id"] if more else None))


@job_history.guarded(ATTEMPTS)
def attempts(call: Call, job_id: str) -> Response:
    """List a job's attempts."""
    rows, more = _page(
        call, job_id, lambda reader, job, limit: stored.attempts(reader, job, after=call.query.cursor, limit=limit)
    )
    operator = call.scope.principal.operator
    found = [
        AttemptBody(
            row["attempt"],
            row["worker"] if operator else None,
            row["started_at"],
            row["finished_at"],
            row["outcome"],
            error_body(row["error"], operator=operator),
        )
        for row in rows
    ]
    return answer(AttemptPage(found, found[-1].attempt if more else None))


def _page(call: Call, job_id: str, read: Callable[[Any, Any, int], Rows]) -> tuple[Rows, bool]:
    """Return a page of a visible job's rows, and whether more follow."""
    asked = read_id(job_id, no_such_job())
    limit = call.query.limit
    with services().connection() as connection, as_api(connection, call.scope.tenant) as reader:
        if not stored.exists(reader, asked, call.scope.visible_user):
            raise no_such_job()
        rows = read(reader, asked, limit + 1)
    return rows[:limit], len(rows) > limit
