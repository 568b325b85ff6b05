"""GET /jobs/<id>: one job, what it did and what it could not do."""

from typing import Any

from flask import Response, request

from turno.jobs.job import Status
from turno.store.api import jobs as stored
from turno.store.api import notifications
from turno.tenancy.identity.session import as_api
from turno.web.api.job_id import read_id
from turno.web.http import query
from turno.web.http.problems import no_such_job
from turno.web.http.query import Parameter, read_query
from turno.web.pages.drawing import draw
from turno.web.pages.home import NOTICES
from turno.web.pages.job_detail import ITEM_STATES, job_detail
from turno.web.pages.job_view import JobView
from turno.web.pages.page_routes import Pages
from turno.web.pages.reasons import of_event, of_job
from turno.web.pages.visit import Visit
from turno.web.services import services

job_page = Pages("job_page", __name__)

ITEMS_SHOWN = 100

QUERY = (
    Parameter(name="branch", about="", schema={}, read=query.text),
    Parameter(name="lang", about="", schema={}, read=query.text),
    Parameter(name="notice", about="", schema={}, read=query.words(*NOTICES), default=""),
    Parameter(name="items", about="", schema={}, read=query.words(*ITEM_STATES)),
    Parameter(name="after", about="", schema={}, read=query.text, default=""),
)


@job_page.page("/jobs/<job_id>")
def show(visit: Visit, job_id: str) -> Response:
    """Show one job."""
    wanted = read_id(job_id, no_such_job())
    asked = read_query(request.args, QUERY, others_ignored=True)
    with services().connection() as connection, as_api(connection, visit.scope.tenant) as reader:
        row = stored.find(reader, wanted, visit.scope.visible_user)
        if row is None:
            raise no_such_job()
        detail = job_detail(reader, row, visit, state=asked["items"], after=asked["after"], limit=ITEMS_SHOWN)
        events = stored.events(reader, wanted)
        unread = notifications.count_unread(reader, visit.user)
    told = of_job if visit.scope.principal.operator else of_event
    history = [_changed(event, detail.job, visit) | {"reason": told(event["reason"], visit.speech)} for event in events]
    return draw("job.html", visit=visit, asked=asked, detail=detail, unread=unread, events=history)


def _changed(event: dict[str, Any], job: JobView, visit: Visit) -> dict[str, Any]:
    """Return a change of the job's status with its word: the one for its end is the job's own."""
    if event["new_status"] == Status.COMPLETED:
        return event | {"label": job.body.label, "state": job.state}
    label = "waiting" if event["new_status"] == Status.PENDING else event["new_status"]
    return event | {"label": label, "state": visit.speech.say(label)}
