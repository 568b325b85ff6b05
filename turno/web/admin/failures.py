"""GET /admin/failures: dead letters of all tenants by error."""

from dataclasses import replace

from flask import Response, request

from turno.store.operator import job_search
from turno.web.admin.jobs_asked import JobsAsked
from turno.web.admin.operator_pages import OperatorPages, OperatorVisit, as_operator
from turno.web.http.query import read_query
from turno.web.pages.drawing import draw

failures = OperatorPages("operator_failures", __name__)

GROUPS_SHOWN = 50
JOBS_SHOWN = 50


@failures.screen("/admin/failures")
def index(visit: OperatorVisit) -> Response:
    """List dead letters by error, or those of one error."""
    asked = replace(read_query(request.args, JobsAsked, others_ignored=True), status="failed")
    wanted = asked.wanted(visit, waiting=True)
    with as_operator() as operator:
        groups = [] if asked.error else job_search.group_jobs(operator, wanted, "error", limit=GROUPS_SHOWN + 1)
        jobs = job_search.find_jobs(operator, wanted, before=asked.before, limit=JOBS_SHOWN + 1)
    return draw(
        "turno/admin/failures.html",
        visit=visit,
        asked=asked,
        groups=groups[:GROUPS_SHOWN],
        many=len(groups) > GROUPS_SHOWN,
        jobs=jobs[:JOBS_SHOWN],
        after=jobs[JOBS_SHOWN - 1] if len(jobs) > JOBS_SHOWN else None,
    )
