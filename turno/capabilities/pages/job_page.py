"""GET /jobs/<id>: one job with its items and its history."""

from dataclasses import dataclass
from typing import Any

from flask import Response

from turno.capabilities.pages.job_detail import ItemState, job_detail
from turno.capabilities.pages.job_view import JobView, job_views
from turno.jobs.job import Status
from turno.store.api import jobs as stored
from turno.store.api import notifications
from turno.web.pages.drawing import draw, written
from turno.web.pages.localizer import of_event, of_job
from turno.web.pages.page_routes import PageQuery, Pages
from turno.web.pages.visit import Visit, reading
from turno.web.requests import NOT_GIVEN, Text, read_id
from turno.web.responses import no_such_job
from turno.web.services import services

job_page = Pages("job_page", __name__)

ITEMS_SHOWN = 100
PARTS_SHOWN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery(PageQuery):
    """Which of the job's items are listed, and after which key."""

    items: ItemState = NOT_GIVEN
    after: Text = ""


@job_page.page("/jobs/<job_id>")
def show(visit: Visit, job_id: str, asked: JobQuery) -> Response:
    """Show one job."""
    wanted = read_id(job_id, no_such_job())
    with reading(visit) as reader:
        row = stored.find(reader, wanted, visit.scope.visible_user)
        if row is None:
            raise no_such_job()
        detail = job_detail(reader, row, visit, state=asked.items, after=asked.after, limit=ITEMS_SHOWN)
        sections = [section(reader, visit, wanted) for section in services().job_sections]
        parts = stored.search(reader, stored.JobFilter(part_of=wanted, limit=PARTS_SHOWN)) if row["parts"] else []
        part_views = job_views(reader, parts[::-1], visit)
        events = stored.events(reader, wanted)
        unread = notifications.count_unread(reader, visit.user)
    told = of_job if visit.scope.principal.operator else of_event
    history = [
        _changed(event, detail.job, visit) | {"reason": told(event["reason"], visit.localizer)} for event in events
    ]
    return draw(
        "turno/job.html",
        visit=visit,
        asked=asked,
        detail=detail,
        unread=unread,
        sections=sections,
        parts=part_views,
        events=history,
        written=written,
    )


def _changed(event: dict[str, Any], job: JobView, visit: Visit) -> dict[str, Any]:
    """Return a change of the job's status with its word: the word of its end is the job's label."""
    if event["new_status"] == Status.COMPLETED:
        return event | {"label": job.body.label, "state": job.state}
    label = "waiting" if event["new_status"] == Status.PENDING else event["new_status"]
    return event | {"label": label, "state": visit.localizer.say(label)}
