"""/admin/jobs/<tenant>/<id> and /api/admin/jobs/<id>/logs: one job's whole life, and its log."""

import shlex
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Annotated, Any

from flask import Response, request

from turno.capabilities.admin.job_actions import actions_of
from turno.jobs.error_record import without_our_frames
from turno.store.api import jobs as stored
from turno.web.api.job_body import JobBody, error_body, job_body
from turno.web.pages.drawing import draw, written
from turno.web.pages.localizer import of_job
from turno.web.pages.page_routes import OperatorPages, OperatorVisit
from turno.web.requests import AFTER, NOT_GIVEN, PageSize, Text, described, read_id
from turno.web.responses import Kind, from_row, no_such_job, page_of
from turno.web.routes import Call, Routes
from turno.web.services import at, services

admin_logs = Routes("admin_logs", __name__, tag="administration")
job_life = OperatorPages("operator_job", __name__)

ATTEMPTS_SHOWN = 50
ITEMS_SHOWN = 50
EVENTS_SHOWN = 200
LINES_SHOWN = 200


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line; `number` is its position in the attempt's log, and a gap marks omitted lines."""

    attempt: int
    number: int
    at: datetime
    level: str
    logger: str
    line: str


@dataclass(frozen=True, slots=True)
class LogPage:
    """Lines in order. A `cursor`, such as 1.20, has the attempt and number of a line: the next page follows it."""

    lines: list[LogLine]
    next_cursor: str | None


# An attempt and a number that the columns can hold.
Place = Annotated[str, described(AFTER, pattern=r"^[0-9]{1,9}\.[0-9]{1,18}$")]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """A page of a job's log."""

    cursor: Place = NOT_GIVEN
    limit: PageSize = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeQuery:
    """The ledger position behind which the page starts, and the verdict of an action."""

    after: Text = ""
    notice: Text = ""


@admin_logs.operation("GET /api/admin/jobs/<job_id>/logs", problems=(Kind.NOT_FOUND,), operator=True)
def logs(call: Call, query: LogQuery, job_id: str) -> LogPage:
    """List the log lines of a job's attempts.

    The newest lines of each attempt, up to `job_log_lines` of TURNO_LIMITS. Secrets are redacted for callers without
    the role admin.
    """
    asked = read_id(job_id, no_such_job())
    with call.scope.reading() as reader:
        if not stored.exists(reader, asked, None):
            raise no_such_job()
        attempt, _, number = (query.cursor or "0.0").partition(".")
        rows = stored.logs(reader, asked, after=(int(attempt), int(number)), limit=query.limit + 1)
    seen = [call.scope.seen(row) | {"place": f"{row['attempt']}.{row['number']}"} for row in rows]
    return LogPage(*page_of(seen, query.limit, partial(from_row, LogLine), "place"))


@job_life.page("/admin/jobs/<tenant>/<job_id>")
def show(visit: OperatorVisit, tenant: str, job_id: str, asked: LifeQuery) -> Response:
    """Show all that is known of one job."""
    wanted = read_id(job_id, no_such_job())
    scope = visit.within(tenant)
    with scope.reading() as reader:
        row = stored.find(reader, wanted, None)
        if row is None:
            raise no_such_job()
        payload = stored.payloads(reader, [wanted]).get(wanted)
        attempts = stored.attempts(reader, wanted, limit=ATTEMPTS_SHOWN)
        items = stored.items(reader, wanted, None, asked.after, ITEMS_SHOWN + 1)
        events = stored.events(reader, wanted, limit=EVENTS_SHOWN)
        sections = [section(reader, visit, wanted) for section in services().operator_job_sections]
        lines = stored.newest_logs(reader, wanted, LINES_SHOWN)
        row = scope.seen(row)
        attempts, items, lines = ([scope.seen(one) for one in some] for some in (attempts, items, lines))
    body = job_body(row, at(""), operator=True)
    if payload is not None and scope.hides:
        payload = services().redaction.value(payload, body.type)
    return draw(
        "turno/admin/job.html",
        visit=visit,
        tenant=tenant,
        job=body,
        title=visit.localizer.title(body.type),
        happened=_happened(row, body, visit),
        attempts=[_attempt(one) for one in attempts],
        items=[one | {"error": error_body(one["error"], operator=True)} for one in items[:ITEMS_SHOWN]],
        after=items[ITEMS_SHOWN - 1]["key"] if len(items) > ITEMS_SHOWN else None,
        events=[one | {"told": of_job(one["reason"], visit.localizer)} for one in events],
        sections=sections,
        logs=[(attempt, list(some)) for attempt, some in groupby(lines, key=itemgetter("attempt"))],
        payload=None if payload is None else written(payload),
        result=None if body.result is None else written(body.result),
        curl=_curl(tenant, body),
        actions=actions_of(visit, tenant, body),
        asked=asked,
    )


def _happened(row: stored.Row, body: JobBody, visit: OperatorVisit) -> str:
    """Return the events that explain the job's state, as far as they are recorded."""
    if body.error is not None:
        return f"{body.error.class_}: {body.error.message}"
    return of_job(row["reason"], visit.localizer) or body.waiting_for or ""


def _attempt(row: stored.Row) -> dict[str, Any]:
    error = error_body(row["error"], operator=True)
    trace = without_our_frames(error.traceback) if error and error.traceback else None
    lasted = None if row["finished_at"] is None else (row["finished_at"] - row["started_at"]).total_seconds()
    return row | {"error": error, "traceback": trace, "lasted": lasted}


def _curl(tenant: str, body: JobBody) -> str:
    """Return the command that requests this job from the API; the caller adds a token."""
    address = f"{request.host_url.rstrip('/')}{body.links['self']}"
    return f'curl -H "Authorization: Bearer $TOKEN" -H {shlex.quote(f"X-Schema: {tenant}")} {shlex.quote(address)}'
