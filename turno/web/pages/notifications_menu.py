"""GET /notifications, and the forms that mark them as read: what a user was told when jobs ended."""

from typing import Any

from flask import Response, request

from turno.store.api import notifications as stored
from turno.tenancy.identity.session import as_api
from turno.web.api.job_id import read_id
from turno.web.api.notifications import read, told_label
from turno.web.http import query
from turno.web.http.problems import Kind, Problem
from turno.web.http.query import Parameter, read_query
from turno.web.pages.drawing import draw, go
from turno.web.pages.page_routes import Pages
from turno.web.pages.visit import Visit
from turno.web.services import services

bell = Pages("bell", __name__)

SHOWN = 30

QUERY = (
    Parameter(name="branch", about="", schema={}, read=query.text),
    Parameter(name="lang", about="", schema={}, read=query.text),
    Parameter(name="before", about="", schema={}, read=query.CURSOR.read),
)


@bell.page("/notifications")
def index(visit: Visit) -> Response:
    """Show the notifications, newest first."""
    asked = read_query(request.args, QUERY, others_ignored=True)
    with services().connection() as connection, as_api(connection, visit.scope.tenant) as reader:
        rows = stored.search(reader, visit.user, unread=False, before=asked["before"], limit=SHOWN + 1)
        unread = stored.count_unread(reader, visit.user)
    page = rows[:SHOWN]
    before = page[-1]["id"] if len(rows) > len(page) else None
    told = [_told(row, visit) for row in page]
    return draw("bell.html", visit=visit, asked=asked, notifications=told, before=before, unread=unread)


@bell.form("/notifications/<notification_id>/open")
def opened(visit: Visit, notification_id: str) -> Response:
    """Mark one as read and show its job."""
    unknown = Problem(Kind.NOT_FOUND, "There is no such notification.")
    job = read(visit.scope, read_id(notification_id, unknown))
    if job is None:
        raise unknown
    return go(visit.to(f"/jobs/{job}"))


@bell.form("/notifications/read")
def read_all(visit: Visit) -> Response:
    """Mark those that the page showed as read."""
    unknown = Problem(Kind.NOT_FOUND, "There is no such notification.")
    for text in request.form.getlist("notification")[:SHOWN]:
        read(visit.scope, read_id(text, unknown))
    return go(visit.to("/notifications"))


def _told(row: dict[str, Any], visit: Visit) -> dict[str, Any]:
    speech, data = visit.speech, row["data"]
    label = told_label(row)
    title = speech.title(data["type"])
    count = ""
    if data.get("total"):
        count = speech.say("count", done=speech.number(data["done"]), total=speech.number(data["total"]))
        if data.get("failed") and row["kind"] != "completed":  # whose word has the number already
            count += ", " + speech.say("failed count", n=data["failed"])
    state = speech.say(label, n=data.get("failed") or 0)
    return {**row, "label": label, "state": state, "title": title, "count": count}
