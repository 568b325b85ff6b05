"""GET /: the list of jobs; an application may show a part of its page above the list."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from flask import Response

from turno.capabilities.pages.job_page import JobDetail, job_detail
from turno.capabilities.pages.job_view import JobView, job_views
from turno.jobs.job import Status
from turno.store.api import jobs as stored_jobs
from turno.web.pages.drawing import draw
from turno.web.pages.page_routes import PageQuery, Pages
from turno.web.pages.visit import Visit, reading
from turno.web.requests import NOT_GIVEN

__all__ = ["HomeQuery", "details", "listed", "under_way"]

home = Pages("home", __name__, template_folder="templates")

JOBS_SHOWN = 12  # the first view has at most 100 kB
MAX_UNDER_WAY = 5
REASONS_SHOWN = 5  # of an open row; the page of the job has all reasons
OPEN = (Status.PENDING, Status.RUNNING)
SHOWN: Mapping[str, tuple[Status, ...]] = {
    "open": OPEN,
    "completed": (Status.COMPLETED,),
    "failed": (Status.FAILED,),
    "cancelled": (Status.CANCELLED,),
}

# A form of the page also sends empty values.
Shown = Literal["", "open", "completed", "failed", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeQuery(PageQuery):
    """Which jobs are listed, and which one's row is open; `job` is the new job of a form."""

    show: Shown = ""
    before: UUID = NOT_GIVEN
    job: UUID = NOT_GIVEN
    open: UUID = NOT_GIVEN


@home.page("/")
def index(visit: Visit, query: HomeQuery) -> Response:
    """Show the branch."""
    with reading(visit) as reader:
        context = listed(reader, visit, query)
    return draw("turno/home.html", visit=visit, query=query, **context)


def listed(
    reader: stored_jobs.Reader,
    visit: Visit,
    query: HomeQuery,
    *,
    above: Collection[str] = (),
    types: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the context of `turno/home.html`: the jobs that the visitor may see, without the jobs `above` the list."""
    return {
        "jobs": _jobs(reader, visit, query, above=above, types=types),
        "opened": _opened(reader, visit, query.open),
        "shown": SHOWN,
        "above": above,
    }


def under_way(reader: stored_jobs.Reader, visit: Visit, job_type: str, query: HomeQuery) -> list[JobView]:
    """Return the visitor's jobs of a type that are under way, and the job that the address names.

    Where the list was filtered, an ended job has its place there.
    """
    active = stored_jobs.JobFilter(
        user_id=visit.user, statuses=OPEN, types=(job_type,), limit=MAX_UNDER_WAY, parts=False
    )
    views = [view for view in job_views(reader, stored_jobs.search(reader, active), visit) if view.active]
    wanted = None if query.show else query.job
    if wanted and wanted not in [view.body.job_id for view in views]:
        row = stored_jobs.find(reader, wanted, visit.scope.visible_user)
        views += job_views(reader, [row], visit) if row else []
    return views


def details(reader: stored_jobs.Reader, visit: Visit, jobs: Iterable[JobView]) -> dict[str, JobDetail]:
    """Return the details of these jobs that have ended, by id, with their first failed items."""
    ended = [job.body.job_id for job in jobs if job.body.status.ended]
    found = [(job_id, _opened(reader, visit, job_id)) for job_id in ended]
    return {str(job_id): detail for job_id, detail in found if detail}


def _opened(reader: stored_jobs.Reader, visit: Visit, wanted: UUID | None) -> JobDetail | None:
    """Return the details of the job with the open row."""
    row = stored_jobs.find(reader, wanted, visit.scope.visible_user) if wanted else None
    return job_detail(reader, row, visit, limit=REASONS_SHOWN) if row else None


def _jobs(
    reader: stored_jobs.Reader, visit: Visit, query: HomeQuery, *, above: Collection[str], types: Sequence[str]
) -> dict[str, Any]:
    wanted = stored_jobs.JobFilter(
        user_id=visit.scope.visible_user,
        statuses=SHOWN.get(query.show, ()),
        types=types,
        parts=False,
        before=query.before,
        limit=JOBS_SHOWN + 1,
    )
    rows = stored_jobs.search(reader, wanted)
    page = job_views(reader, rows[:JOBS_SHOWN], visit)
    shown = [job for job in page if query.show or job.id not in above]
    return {"page": shown, "before": page[-1].id if len(rows) > len(page) else None}
