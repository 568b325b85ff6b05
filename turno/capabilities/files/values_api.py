"""GET /api/jobs/<id>/values: the values that a job has appended, also before its end."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from turno.store.api import jobs as stored
from turno.web.api.jobs import HistoryQuery
from turno.web.requests import read_id
from turno.web.responses import Kind, from_row, no_such_job, page_of
from turno.web.routes import Call, Routes

values = Routes("values", __name__, tag="jobs")


@dataclass(frozen=True, slots=True)
class ValueBody:
    """One value; `n` grows within a job, with gaps."""

    n: int
    value: Any
    at: datetime


@dataclass(frozen=True, slots=True)
class ValuePage:
    """Values in their order; `cursor` of a later request is the `n` of the last value that the reader has."""

    values: list[ValueBody]
    next_cursor: int | None


@values.operation("GET /api/jobs/<job_id>/values", problems=(Kind.NOT_FOUND,))
def listed(call: Call, query: HistoryQuery, job_id: str) -> ValuePage:
    """List the values of a job.

    A running job's values appear with each commit of its work. Secrets are redacted for operators without the role
    admin.
    """
    wanted = read_id(job_id, no_such_job())
    with call.scope.reading() as reader:
        if not stored.exists(reader, wanted, call.scope.visible_user):
            raise no_such_job()
        rows = reader.execute(
            "SELECT n, value, at FROM background_job_values WHERE job_id = %s AND n > %s ORDER BY n LIMIT %s",
            (wanted, query.cursor, query.limit + 1),
        ).fetchall()
        job = stored.find(reader, wanted, None) if rows else None
    if job is not None:
        rows = [
            row | {"value": call.scope.seen(row | {"type": job["type"], "result": row["value"]})["result"]}
            for row in rows
        ]
    return ValuePage(*page_of(rows, query.limit, partial(from_row, ValueBody), "n"))
