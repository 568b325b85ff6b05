"""GET /api/stream and /api/jobs/<id>/stream: the states of jobs as server-sent events."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal, NoReturn, cast
from uuid import UUID

from flask import Response, request
from flask_sse import ServerSentEventsBlueprint

from turno.capabilities.streams.access import stream_scope
from turno.capabilities.streams.hub import Hub
from turno.capabilities.streams.live import HEADERS, Frames, LiveResponse, most_on_threads
from turno.capabilities.streams.stream_events import StreamEvents, ready
from turno.capabilities.streams.subscriber import CloseReason, Subscriber, View
from turno.store.api import jobs as stored
from turno.store.api import notifications, watched_jobs
from turno.tenancy.identity.tenant import SLUG
from turno.web.admission import require_operator
from turno.web.api.jobs import EVERY_USER
from turno.web.requests import NOT_GIVEN, Text, described, read_id
from turno.web.responses import Kind, no_such_job
from turno.web.routes import Answer, Call, Routes
from turno.web.services import at, services

UNREAD_AT_MOST = 50


def hub() -> Hub:
    """Return the hub of this process."""
    return cast("Hub", services().live)


class Streams(Routes, ServerSentEventsBlueprint):  # type: ignore[misc]  # flask-sse has no types
    """flask-sse's blueprint over the hub instead of Redis.

    In its view the query string chooses the channel: the view is not registered, and refuses.
    """

    def messages(self, channel: Subscriber) -> Frames:
        """Return the framed messages of a subscriber until its end."""
        return Frames(channel, partial(hub().leave, channel))

    def stream(self) -> NoReturn:
        """Refuse: the content depends on the principal, never on the query."""
        raise NotImplementedError

    def publish(self, *_arguments: object, **_options: object) -> NoReturn:
        """Refuse: the hub reads the content from the database, after `Hub.announce`."""
        raise NotImplementedError


streams = Streams("streams", __name__, tag="streams")

ABOUT = (
    "Server-sent events: `job` with the JSON of the job's address, {more}`ready` after the first state, `bye` with a "
    "reason when the server ends the stream. Reconnect when it ends: the server sends the state "
    "anew; ignore revisions lower than known revisions."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamQuery:
    """Authentication in the URL, for clients that cannot send headers."""

    schema: Annotated[str, described("The tenant, where X-Schema cannot be sent.", pattern=f"^{SLUG.pattern}$")] = ""
    ticket: Annotated[
        Text, described("A ticket from /api/stream-tickets, in place of a token; it names the tenant.")
    ] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllJobsQuery(StreamQuery):
    """Whose jobs are followed."""

    user: Annotated[
        Literal["*"],
        described(f"For operators: `{EVERY_USER}` for the jobs of all users; notifications remain your own."),
    ] = NOT_GIVEN


OPENED = {200: Answer(about="Events until either side ends them.", media_type="text/event-stream")}
REFUSED = (Kind.FOREIGN_SITE, Kind.CROWDED)


@streams.operation(
    "GET /api/jobs/<job_id>/stream",
    about=ABOUT.format(more="") + " The stream ends when the job has ended.",
    answers=OPENED,
    tenant_in_query=True,
    problems=(*REFUSED, Kind.NOT_FOUND),
    scope=stream_scope,
)
def one_job(call: Call, query: StreamQuery, job_id: str) -> Response:
    """Follow one job live."""
    del query
    return _open(call, read_id(job_id, no_such_job()))


@streams.operation(
    "GET /api/stream",
    about=ABOUT.format(more="`notification` with the JSON of one notification, ")
    + " The first state has your open jobs, the jobs that ended within the last hour, and unread notifications.",
    answers=OPENED,
    tenant_in_query=True,
    problems=(*REFUSED, Kind.OPERATORS_ONLY),
    scope=stream_scope,
)
def all_jobs(call: Call, query: AllJobsQuery) -> Response:
    """Follow all your jobs live."""
    return _open(call, None, everybody=query.user == EVERY_USER)


def _open(call: Call, job_id: UUID | None, *, everybody: bool = False) -> Response:
    if request.method == "HEAD":
        return Response(mimetype="text/event-stream")
    if everybody:
        require_operator(call.scope.principal)
    subscriber = Subscriber(View.of(call.scope, job_id, everybody=everybody))
    hub().join(subscriber, most=most_on_threads())
    try:
        # After joining: the hub offers each later change to the subscriber.
        _show_present(call, subscriber)
    except BaseException:
        hub().leave(subscriber)
        raise
    frames = streams.messages(subscriber)
    return LiveResponse(frames, frames.close, mimetype="text/event-stream", headers=HEADERS)


def _show_present(call: Call, subscriber: Subscriber) -> None:
    view, events = subscriber.view, StreamEvents(at(""), services().redaction)
    unread = None
    with call.scope.reading() as reader:
        if view.job_id is not None:
            row = stored.find(reader, view.job_id, None if view.operator else view.user)
            rows, notices = [row] if row else [], []
        else:
            rows = watched_jobs.of_user(reader, None if view.everybody else view.user)
            notices = notifications.search(reader, view.user, unread=True, before=None, limit=UNREAD_AT_MOST)
            unread = notifications.count_unread(reader, view.user)
    if view.job_id is not None and not rows:
        raise no_such_job()
    for row in rows:
        subscriber.offer(events.job(row, operator=view.operator, admin=view.admin))
    for row in reversed(notices):
        subscriber.offer(events.notification(row))
    subscriber.offer(ready(unread))
    if view.job_id is not None and rows[0]["finished_at"] is not None:
        subscriber.end(CloseReason.JOB_ENDED)
