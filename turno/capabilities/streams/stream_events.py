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
RETRY_MS = 2000
READY_KEY = UUID(int=0)


class Event(Message):  # type: ignore[misc]  # flask-sse has no types
    """A message that is framed once for all its subscribers.

    Its data is JSON in ASCII, without line ends, and its type is a constant.
    """

    def __init__(self, body: Any, type: str) -> None:  # noqa: A002 - flask-sse's word
        super().__init__(dumps(body), type=type)
        self._framed = str(self).encode("ascii")

    def __bytes__(self) -> bytes:
        return self._framed


class Words(Message):  # type: ignore[misc]
    """A frame that is no event: a comment, or how long to wait before coming back."""

    def __init__(self, framed: bytes) -> None:
        super().__init__("")
        self._framed = framed

    def __bytes__(self) -> bytes:
        return self._framed

    def __str__(self) -> str:
        return self._framed.decode()


RETRY = Words(b"retry: %d\n\n" % RETRY_MS)


class StreamEvents:
    """Frames rows for the hub; implements `turno.capabilities.streams.tenant_subscribers.Render`.

    Links start with `root`, the same for all subscribers: an event is built once and sent to each subscriber.
    """

    def __init__(self, root: str = "", redaction: Redaction | None = None) -> None:
        self._root = root
        self._redaction = redaction or Redaction()

    def job(self, row: Row, *, operator: bool, admin: bool = False) -> State:
        """Return the event of a job: the JSON of its address, without long fields."""
        body = job_body(self._redaction.row(row) if operator and not admin else row, self._root, operator=operator)
        return State(body.job_id, body.revision, body.standing, Event(body, "job"))

    def notification(self, row: Row) -> State:
        """Return the event of a notification."""
        body = notification_body(row, self._root)
        return State(("notification", body.id), 1 if body.read_at is None else 2, "", Event(body, "notification"))


def ready(unread: int | None) -> State:
    """Return the event after the first state; `unread` counts notifications, where they are shown."""
    return State(READY_KEY, 1, "", Event({} if unread is None else {"unread": unread}, "ready"))


def close_event(reason: CloseReason) -> Event:
    """Return the last event of a stream that the server ends."""
    return Event({"reason": reason}, "bye")
