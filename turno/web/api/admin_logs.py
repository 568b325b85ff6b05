"""GET /api/admin/jobs/<id>/logs: what a job's attempts logged. It is written for who runs the system, not for users."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated

from turno.store.api import jobs as stored
from turno.web.api.job_id import read_id
from turno.web.http.json_answers import from_row, page_of
from turno.web.http.problems import Kind, no_such_job
from turno.web.http.query import AFTER, NOT_GIVEN, PageSize, described
from turno.web.routes import Call, Routes

admin_logs = Routes("admin_logs", __name__, tag="administration")


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line; `number` is its place in the attempt's log, and a gap says that lines were left out."""

    attempt: int
    number: int
    at: datetime
    level: str
    logger: str
    line: str


@dataclass(frozen=True, slots=True)
class LogPage:
    """Lines in order. A `cursor` is the attempt and number of a line, such as 1.20: ask for those after it again."""

    lines: list[LogLine]
    next_cursor: str | None


# An attempt and a number that the columns can hold.
Place = Annotated[str, described(AFTER, pattern=r"^[0-9]{1,9}\.[0-9]{1,18}$")]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """A page of a job's log."""

    cursor: Place = NOT_GIVEN
    limit: PageSize = 200


@admin_logs.operation("GET /api/admin/jobs/<job_id>/logs", problems=(Kind.NOT_FOUND,), operator=True)
def logs(call: Call, query: LogQuery, job_id: str) -> LogPage:
    """List what a job's attempts logged.

    The newest lines of each attempt, as many as `JOB_LOG_LINES` says. Without secrets for who is no admin.
    """
    asked = read_id(job_id, no_such_job())
    with call.scope.reading() as reader:
        if not stored.exists(reader, asked, None):
            raise no_such_job()
        attempt, _, number = (query.cursor or "0.0").partition(".")
        rows = stored.logs(reader, asked, after=(int(attempt), int(number)), limit=query.limit + 1)
    seen = [call.scope.seen(row) | {"place": f"{row['attempt']}.{row['number']}"} for row in rows]
    return LogPage(*page_of(seen, query.limit, partial(from_row, LogLine), "place"))
