"""GET /admin/failures: jobs that failed, and jobs with failed items, of all tenants by error, type or tenant."""

from dataclasses import dataclass, replace
from typing import Literal

from flask import Response, request

from turno.jobs.label import LABELS
from turno.store.operator import job_search
from turno.web.admin.jobs_asked import JobsAsked
from turno.web.admin.operator_pages import OperatorPages, OperatorVisit, as_operator
from turno.web.http.query import read_query
from turno.web.pages.drawing import draw

failures = OperatorPages("operator_failures", __name__)

GROUPS_SHOWN = 50
JOBS_SHOWN = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class FailuresAsked(JobsAsked):
    """The filters of the page, and the common property of a group."""

    by: Literal["error", "type", "tenant"] = "error"


@failures.screen("/admin/failures")
def index(visit: OperatorVisit) -> Response:
    """List failures in groups, and the failed jobs that the filters leave."""
    asked = read_query(request.args, FailuresAsked, others_ignored=True)
    asked = replace(asked, status="", outcome=asked.outcome or "failures")
    wanted, by = asked.wanted(visit, waiting=True), asked.by
    with as_operator() as operator:
        groups = [] if asked.text(by) else job_search.group_jobs(operator, wanted, by, limit=GROUPS_SHOWN + 1)
        jobs = job_search.find_jobs(operator, wanted, before=asked.before, limit=JOBS_SHOWN + 1)
    for job in jobs:
        job["label"] = LABELS[job["outcome"]]
    return draw(
        "turno/admin/failures.html",
        visit=visit,
        asked=asked,
        groups=groups[:GROUPS_SHOWN],
        many=len(groups) > GROUPS_SHOWN,
        jobs=jobs[:JOBS_SHOWN],
        after=jobs[JOBS_SHOWN - 1] if len(jobs) > JOBS_SHOWN else None,
    )
