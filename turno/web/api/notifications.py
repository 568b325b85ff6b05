"""/api/notifications: a user's notifications about ended jobs."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal
from uuid import UUID

from turno.jobs.label import LABELS, Label, Outcome, outcome
from turno.store.api import notifications as stored
from turno.tenancy.identity.session import call_as_api
from turno.web.admission import Scope
from turno.web.requests import JobPageQuery, described, read_id
from turno.web.responses import Kind, Problem, from_row, page_of
from turno.web.routes import Call, Routes
from turno.web.services import at, services

notifications = Routes("notifications", __name__, tag="notifications")


@dataclass(frozen=True, slots=True)
class NotificationBody:
    """A job ended, or needs review; `data` has its type, the reason, its counts or the key of the effect in doubt.

    `label` and `outcome` belong to the job; `outcome` is null where the job waits for a review.
    """

    id: UUID
    job_id: UUID
    kind: Literal["completed", "failed", "cancelled", "needs_review"]
    label: Label
    outcome: Outcome | None
    data: dict[str, Any]
    created_at: datetime
    read_at: datetime | None
    links: dict[str, str]


@dataclass(frozen=True, slots=True)
class NotificationPage:
    """Notifications, newest first; `unread` counts all that were not read, on this page or not."""

    notifications: list[NotificationBody]
    unread: int
    next_cursor: UUID | None


@dataclass(frozen=True, slots=True)
class Read:
    """The notification is marked as read."""

    id: UUID
    status: Literal["read"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationsQuery(JobPageQuery):
    """Which notifications are listed."""

    unread: Annotated[bool, described("Only unread notifications.")] = False


@notifications.operation("GET /api/notifications")
def index(call: Call, query: NotificationsQuery) -> NotificationPage:
    """List your notifications."""
    user = call.scope.principal.user
    with call.scope.reading() as reader:
        rows = stored.search(reader, user, unread=query.unread, before=query.cursor, limit=query.limit + 1)
        unread = stored.count_unread(reader, user)
    page, following = page_of(rows, query.limit, partial(notification_body, root=at("")), "id")
    return NotificationPage(page, unread, following)


@notifications.operation("PATCH /api/notifications/<notification_id>/read", problems=(Kind.NOT_FOUND,))
def mark_read(call: Call, notification_id: str) -> Read:
    """Mark a notification as read.

    Safe to repeat.
    """
    unknown = Problem(Kind.NOT_FOUND, "No notification with this id can be seen with this token in this tenant.")
    wanted = read_id(notification_id, unknown)
    if read(call.scope, wanted) is None:
        raise unknown
    return Read(wanted, "read")


def read(scope: Scope, notification: UUID) -> UUID | None:
    """Mark a user's notification as read and announce it; returns its job, None if there is no such notification."""
    with services().connection() as connection:
        job: UUID | None = call_as_api(connection, scope.tenant, stored.READ, (notification, scope.principal.user))[
            "job_id"
        ]
    if job is not None:
        services().live.announce(scope.tenant.id, job)
    return job


def notification_body(row: dict[str, Any], root: str) -> NotificationBody:
    """Return a stored notification as visible to its user; `root` is the prefix of its links."""
    links = {"job": f"{root}/api/jobs/{row['job_id']}", "read": f"{root}/api/notifications/{row['id']}/read"}
    return from_row(NotificationBody, row, label=notification_label(row), outcome=_outcome(row), links=links)


def notification_label(row: dict[str, Any]) -> Label:
    """Return the label of the job at the time of a stored notification."""
    ended = _outcome(row)
    return "needs review" if ended is None else LABELS[ended]


def _outcome(row: dict[str, Any]) -> Outcome | None:
    kind, data = row["kind"], row["data"]
    if kind == "needs_review":
        return None
    return outcome(kind, data.get("reason"), data.get("done"), data.get("failed"))
