"""GET /admin/jobs: the jobs of all tenants by whatever is known of them, with what can be done with all of them."""

from typing import Any

from flask import Response, request

from turno.dispatch.search_tenants import search_tenants
from turno.jobs.label import found_label, label
from turno.store.operator.job_search import SearchTooLong, find_quickly
from turno.web.admin.job_changes import changes_of
from turno.web.admin.jobs_asked import JobsAsked
from turno.web.admin.operator_pages import OperatorPages, OperatorVisit, as_operator
from turno.web.http.problems import Kind, Problem
from turno.web.http.query import read_query
from turno.web.pages.drawing import draw
from turno.web.services import services

job_search = OperatorPages("operator_jobs", __name__)

JOBS_SHOWN = 50
SEARCH_SECONDS = 0.15  # after which no further tenant is asked: the page says what to narrow


@job_search.screen("/admin/jobs")
def index(visit: OperatorVisit) -> Response:
    """List the jobs that were asked for, the latest first."""
    asked = read_query(request.args, JobsAsked, others_ignored=True)
    if asked.text("payload") and visit.principal.role != "admin":
        # Whoever may not read a secret would find it letter by letter.
        raise Problem(Kind.OPERATORS_ONLY, "Only the role admin may look into payloads.")
    not_asked, after, slow = 0, None, False
    if asked.asks_tenants:
        rows, not_asked = _of_tenants(visit, asked)
    else:
        try:
            rows, after = _of_all(visit, asked)
        except SearchTooLong:
            rows, slow = [], True
    return draw(
        "turno/admin/jobs.html",
        visit=visit,
        asked=asked,
        jobs=rows,
        after=after,
        not_asked=not_asked,
        slow=slow,
        changes=() if asked.asks_tenants or not rows else changes_of(asked),
    )


def _of_all(visit: OperatorVisit, asked: JobsAsked) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    with as_operator() as operator:
        rows = find_quickly(operator, asked.wanted(visit), before=asked.before, limit=JOBS_SHOWN + 1)
    now = services().clock()
    for row in rows:
        row["label"] = found_label(row, now)
    return rows[:JOBS_SHOWN], rows[JOBS_SHOWN - 1] if len(rows) > JOBS_SHOWN else None


def _of_tenants(visit: OperatorVisit, asked: JobsAsked) -> tuple[list[dict[str, Any]], int]:
    found = search_tenants(
        services().connection,
        services().directory.list_active(),
        asked.within_tenants(JOBS_SHOWN),
        companies=visit.companies,
        tenants=(asked.text("tenant"),) if asked.text("tenant") else (),
        within=SEARCH_SECONDS,
    )
    rows = []
    for row in found.rows:
        error = services().redaction.error(row["error"]) if visit.principal.role != "admin" else row["error"]
        at = row["finished_at"] or row["created_at"]
        said = None if error is None else f"{error.get('class')}: {error.get('message')}"
        rows.append(row | {"job_id": row["id"], "label": label(row), "at": at, "error": said, "closed_as": None})
    return rows, found.not_asked + len(found.troubles)
