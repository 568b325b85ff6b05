"""GET /notifications, and the forms that mark them as read: the notifications of a user about ended jobs."""

from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from flask import Response, request

from turno.store.api import notifications as stored
from turno.web.api.notifications import notification_label, read
from turno.web.pages.drawing import draw, go
from turno.web.pages.page_routes import PageQuery, Pages
from turno.web.pages.visit import Visit, reading
from turno.web.requests import NOT_GIVEN, read_id
from turno.web.responses import Kind, Problem, page_of

notification_pages = Pages("notification_pages", __name__)

SHOWN = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationsQuery(PageQuery):
    """Which page of them is shown."""

    before: UUID = NOT_GIVEN


@notification_pages.page("/notifications")
def index(visit: Visit, query: NotificationsQuery) -> Response:
    """Show the notifications, newest first."""
    with reading(visit) as reader:
        rows = stored.search(reader, visit.user, unread=False, before=query.before, limit=SHOWN + 1)
    notices, before = page_of(rows, SHOWN, partial(_entry, visit=visit), "id")
    return draw("turno/notifications.html", visit=visit, query=query, notifications=notices, before=before)


@notification_pages.form("/notifications/<notification_id>/open")
def opened(visit: Visit, notification_id: str) -> Response:
    """Mark one as read and show its job."""
    unknown = Problem(Kind.NOT_FOUND, "There is no such notification.")
    job = read(visit.scope, read_id(notification_id, unknown))
    if job is None:
        raise unknown
    return go(visit.to(f"/jobs/{job}"))


@notification_pages.form("/notifications/read")
def read_all(visit: Visit) -> Response:
    """Mark the notifications of the page as read."""
    unknown = Problem(Kind.NOT_FOUND, "There is no such notification.")
    for text in request.form.getlist("notification")[:SHOWN]:
        read(visit.scope, read_id(text, unknown))
    return go(visit.to("/notifications"))


def _entry(row: dict[str, Any], visit: Visit) -> dict[str, Any]:
    localizer, data = visit.localizer, row["data"]
    label = notification_label(row)
    title = localizer.title(data["type"])
    count = ""
    if data.get("total"):
        count = localizer.say("count", done=localizer.number(data["done"]), total=localizer.number(data["total"]))
        if data.get("failed") and row["kind"] != "completed":  # the word of this kind has the number
            count += ", " + localizer.say("failed count", n=data["failed"])
    state = localizer.say(label, n=data.get("failed") or 0)
    return {**row, "label": label, "state": state, "title": title, "count": count}
