"""GET /api/jobs/<id>/items, /events and /attempts: the history of a job."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal
from uuid import UUID

from turno.jobs.job import Status
from turno.store.api import jobs as stored
from turno.web.api.job_body import ErrorBody, error_body
from turno.web.http.requests import NOT_GIVEN, KeyCursor, NumberCursor, PageSize, described, read_id
from turno.web.http.responses import Kind, from_row, no_such_job, page_of
from turno.web.routes import Call, Routes

job_history = Routes("job_history", __name__, tag="jobs")


@dataclass(frozen=True, slots=True)
class ItemBody:
    """One item of a batch; `ref` is its result, such as an invoice's number."""

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


Row = dict[str, Any]


@job_history.operation("GET /api/jobs/<job_id>/items", problems=(Kind.NOT_FOUND,))
def items(call: Call, query: ItemsQuery, job_id: str) -> ItemPage:
    """List a batch's items."""

    def read(reader: stored.Reader, job: UUID, limit: int) -> list[Row]:
        return stored.items(reader, job, query.state, query.cursor, limit)

    def body(row: Row) -> ItemBody:
        error = error_body(call.scope.seen(row)["error"], operator=call.scope.principal.operator)
        return from_row(ItemBody, row, error=error)

    return ItemPage(*page_of(_rows(call, job_id, query.limit, read), query.limit, body, "key"))


@job_history.operation("GET /api/jobs/<job_id>/events", problems=(Kind.NOT_FOUND,))
def events(call: Call, query: HistoryQuery, job_id: str) -> EventPage:
    """List a job's changes of status."""

    def read(reader: stored.Reader, job: UUID, limit: int) -> list[Row]:
        return stored.events(reader, job, after=query.cursor, limit=limit)

    found = page_of(_rows(call, job_id, query.limit, read), query.limit, partial(from_row, EventBody), "id")
    return EventPage(*found)


@job_history.operation("GET /api/jobs/<job_id>/attempts", problems=(Kind.NOT_FOUND,))
def attempts(call: Call, query: HistoryQuery, job_id: str) -> AttemptPage:
    """List a job's attempts.

    Operators also see which worker ran each.
    """
    operator = call.scope.principal.operator

    def read(reader: stored.Reader, job: UUID, limit: int) -> list[Row]:
        return stored.attempts(reader, job, after=query.cursor, limit=limit)

    def body(row: Row) -> AttemptBody:
        worker = row["worker"] if operator else None
        error = error_body(call.scope.seen(row)["error"], operator=operator)
        return from_row(AttemptBody, row, worker=worker, error=error)

    return AttemptPage(*page_of(_rows(call, job_id, query.limit, read), query.limit, body, "attempt"))


def _rows(call: Call, job_id: str, limit: int, read: Callable[[stored.Reader, UUID, int], list[Row]]) -> list[Row]:
    """Return a page of a visible job's rows, and one more if there is one."""
    asked = read_id(job_id, no_such_job())
    with call.scope.reading() as reader:
        if not stored.exists(reader, asked, call.scope.visible_user):
            raise no_such_job()
        return read(reader, asked, limit + 1)
