"""The events of a stream: jobs, notifications and control messages of the server, framed by flask-sse."""

from typing import Any
from uuid import UUID

from flask_sse import Message

from turno.capabilities.streams.subscriber import CloseReason, State
from turno.jobs.redaction import Redaction
from turno.web.api.job_body import job_body
from turno.web.api.notifications import notification_body
from turno.web.responses import dumps

Row = dict[str, Any]
READY_KEY = UUID(int=0)
RETRY = b"retry: 2000\n\n"  # milliseconds before a client connects again


def framed(body: Any, event: str) -> bytes:
    """Return an event with this type; its data is JSON in ASCII, without line ends."""
    return str(Message(dumps(body), type=event)).encode("ascii")


class StreamEvents:
    """Frames rows for the hub.

    Links start with `root`, the same for all subscribers: an event is built once and sent to each subscriber.
    """

    def __init__(self, root: str = "", redaction: Redaction | None = None) -> None:
        self._root = root
        self._redaction = redaction or Redaction()

    def job(self, row: Row, *, operator: bool, admin: bool = False) -> State:
        """Return the event of a job: the JSON of its address, without long fields."""
        body = job_body(self._redaction.row(row) if operator and not admin else row, self._root, operator=operator)
        return State(body.job_id, body.revision, body.standing, framed(body, "job"))

    def notification(self, row: Row) -> State:
        """Return the event of a notification."""
        body = notification_body(row, self._root)
        return State(("notification", body.id), 1 if body.read_at is None else 2, "", framed(body, "notification"))


def ready(unread: int | None) -> State:
    """Return the event after the first state; `unread` counts notifications, where they are shown."""
    return State(READY_KEY, 1, "", framed({} if unread is None else {"unread": unread}, "ready"))


def close_event(reason: CloseReason) -> bytes:
    """Return the last event of a stream that the server ends."""
    return framed({"reason": reason}, "bye")
