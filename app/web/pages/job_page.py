"""GET /jobs/<id>: one job, what it did and what it could not do."""

from collections.abc import Mapping
from typing import Any

from flask import Response, request

from app.jobs.job import Status
from app.store import jobs as stored
from app.store import notifications
from app.web import query
from app.web.job_body import error_body
from app.web.job_id import read_id
from app.web.pages.home import BATCH, NOTICES
from app.web.pages.job_view import JobView, job_view
from app.web.pages.page_routes import Pages, Visit, draw
from app.web.problems import no_such_job
from app.web.query import Parameter, read_query
from app.web.services import services
from tenants.session import as_api

job_page = Pages("job_page", __name__)

ITEMS_SHOWN = 100
STATES = ("failed", "done")

QUERY = (
    Parameter(name="branch", about="", schema={}, read=query.text),
    Parameter(name="lang", about="", schema={}, read=query.text),
    Parameter(name="notice", about="", schema={}, read=query.words(*NOTICES), default=""),
    Parameter(name="items", about="", schema={}, read=query.words(*STATES)),
    Parameter(name="after", about="", schema={}, read=query.text, default=""),
)


@job_page.page("/jobs/<job_id>")
def show(visit: Visit, job_id: str) -> Response:
    """Show one job."""
    wanted = read_id(job_id, no_such_job())
    asked = read_query(request.args, QUERY)
    with services().connection() as connection, as_api(connection, visit.scope.tenant) as reader:
        row = stored.find(reader, wanted, visit.scope.visible_user)
        if row is None:
            raise no_such_job()
        job = job_view(row, visit)
        state = asked["items"] or ("failed" if job.body.progress.failed else "done")
        items = stored.items(reader, wanted, state, asked["after"], ITEMS_SHOWN + 1)
        events = stored.events(reader, wanted)
        unread = notifications.count_unread(reader, visit.user)
    page = items[:ITEMS_SHOWN]
    return draw(
        "job.html",
        visit=visit,
        asked=asked,
        job=job,
        unread=unread,
        orders=job.body.type == BATCH,
        story=_story(job, visit),
        shown_items=state,
        items=[_item(item, visit) for item in page],
        items_after=page[-1]["key"] if len(items) > len(page) else None,
        events=events,
    )


def _item(item: Mapping[str, Any], visit: Visit) -> dict[str, Any]:
    error = error_body(item["error"], operator=visit.scope.principal.operator)
    reason = ""
    if error is not None:
        phrase = f"reason {error.class_}"
        known = visit.speech.known(phrase)
        reason = visit.speech.say(phrase, key=item["key"], message=error.message) if known else error.message
    return {"key": item["key"], "ref": item["ref"], "reason": reason, "traceback": error.traceback if error else None}


def _story(job: JobView, visit: Visit) -> dict[str, str]:
    """Return what happened, what was kept and what to do, for a job that did not end well."""
    say, body = visit.speech.say, job.body
    if body.status is Status.COMPLETED and body.progress.failed:
        happened, do = say("happened some", n=body.progress.failed), say("do mend")
    elif body.status is Status.FAILED:
        crashed = body.error is not None and body.error.class_ == "Crash"
        happened, do = say("happened crash" if crashed else "happened fault"), say("do rest")
    elif body.status is Status.CANCELLED:
        happened, do = say("happened expired" if body.label == "expired" else "happened cancel"), say("do rest")
    else:
        return {}
    done = body.progress.done
    story = {"what happened": happened}
    if body.type == BATCH:
        story |= {"what was kept": say("kept", n=done) if done else say("kept nothing")}
    return story | ({"what to do": do} if job.retryable else {})
