"""The live responses of a web process: streams, and ?wait=<seconds>, the response at the end of a job.

A thread iterates a live response under any WSGI server, the event loop where the server has one.
"""

import asyncio
import atexit
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from time import monotonic, time
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from flask import Response, g, request

from turno.capabilities.streams.hub import Hub, ServerFull, StreamLimit
from turno.capabilities.streams.stream_events import RETRY, StreamEvents, close_event
from turno.capabilities.streams.subscriber import Awaiting, CloseReason, Subscriber, View
from turno.http_server.request_threads import EVENT_LOOP
from turno.jobs.handler import named_handlers
from turno.jobs.redaction import Redaction
from turno.settings import Settings
from turno.store.api import jobs as stored
from turno.store.outage import OUTAGE
from turno.tenancy.identity.connections import TimeoutConnection
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.session import SERVICE_TIMEOUTS, assert_pinned
from turno.web.api.job_body import job_body
from turno.web.responses import dumps
from turno.web.routes import Call
from turno.web.services import Live, WaitQuery, at, services

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

# Proxies must neither store nor buffer the stream.
HEADERS = {"X-Accel-Buffering": "no", "Cache-Control": "no-store"}
KEEP_ALIVE = b": still here\n\n"
KEEP_ALIVE_SECONDS = 15.0
MAX_WAIT_SECONDS = 30  # seconds that a request waits at most
# Milliseconds. One session reads for all streams of a process: a tenant with locked tables must not delay it.
HUB_TIMEOUTS = SERVICE_TIMEOUTS | {"lock_timeout": "200", "statement_timeout": "2000"}
HUB_ANSWERS_WITHIN = 5.0  # seconds

Row = dict[str, Any]


class LiveBody:
    """A body in parts, each sent when its subscriber is woken; a thread iterates it, or the event loop."""

    def __init__(self, subscriber: Subscriber, leave: Callable[[], None]) -> None:
        self._subscriber = subscriber
        self._over = False
        self.close = leave

    def __iter__(self) -> Iterator[bytes]:
        with asyncio.Runner() as runner:
            parts = aiter(self)
            while part := runner.run(anext(parts, b"")):
                yield part

    async def __aiter__(self) -> AsyncIterator[bytes]:
        woken = self._subscriber.wakes_task()
        while not self._over:
            woken.clear()
            if part := self._next():
                yield part
                continue
            try:
                async with asyncio.timeout(self._pause()):
                    await woken.wait()
            except TimeoutError:
                pass
            except asyncio.CancelledError:  # the server ends its tasks, or the client has left
                self._subscriber.end(CloseReason.SHUTTING_DOWN)

    def _next(self) -> bytes:
        """Return the bytes to send now."""
        raise NotImplementedError

    def _pause(self) -> float:
        """Return the seconds for which a subscriber that is not woken has nothing to send."""
        return max(0.0, self._subscriber.view.until - time())


class Frames(LiveBody):
    """The bytes of a stream: events, comments that keep the connection alive, and the end."""

    _due: float | None = None  # of the next comment; None before the first part

    def _next(self) -> bytes:
        if self._due is None:
            part = RETRY
        else:
            part = self._events()
            if not part and monotonic() >= self._due:
                part = KEEP_ALIVE
        if part:
            self._due = monotonic() + KEEP_ALIVE_SECONDS
        return part

    def _events(self) -> bytes:
        if time() >= self._subscriber.view.until:
            self._subscriber.end(CloseReason.SESSION_OVER)
        frames, reason = self._subscriber.take()
        self._over = reason is not None
        return b"".join(frames) + (close_event(reason) if reason else b"")

    def _pause(self) -> float:
        return min(super()._pause(), max(0.0, (self._due or 0.0) - monotonic()))


class LiveResponse(Response):
    """A response that occupies a place among the streams until `leave`.

    The server closes its body at the end; a response that an error replaces gives the place back with its request.
    """

    def __init__(self, body: Any, leave: Callable[[], None], **options: Any) -> None:
        super().__init__(body, direct_passthrough=True, **options)
        g.turno_leave = leave

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Start the response; the server closes the body."""
        del g.turno_leave
        return super().__call__(environ, start_response)


def most_on_threads() -> int | None:
    """Return how many streams this server may have at once; None where an event loop serves them.

    Elsewhere each occupies a thread: half of them are left to other requests.
    """
    if EVENT_LOOP in request.environ:
        return None
    return services().settings.web_threads // 2 if request.environ["wsgi.multithread"] else 0


class EndOfWait(LiveBody):
    """The body of a response that begins at the end of its job, or else of the time, with the state of the job then."""

    begin: Callable[[], Iterable[bytes]]  # starts the response and returns its parts

    def __init__(
        self, response: Response, subscriber: Awaiting, body: Callable[[Row], str], leave: Callable[[], None]
    ) -> None:
        super().__init__(subscriber, leave)
        self.response = response
        self._body = body

    def _next(self) -> bytes:
        subscriber = cast("Awaiting", self._subscriber)
        self._over = subscriber.take()[1] is not None or time() >= subscriber.view.until
        if not self._over:
            return b""
        self.close()
        row = subscriber.row
        if row is not None and (row["finished_at"] is not None or self.response.status_code != HTTPStatus.ACCEPTED):
            settled(self.response, row, self._body)
        return b"".join(self.begin())


class AwaitedResponse(LiveResponse):
    """A response without a status before the end of its job."""

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Return the body; it starts the response."""
        del g.turno_leave
        end = cast("EndOfWait", self.response)
        end.begin = partial(end.response, environ, start_response)
        return end


def settled(answer: Response, row: Row, body: Callable[[Row], str]) -> Response:
    """Set status and body of a response to the state in this row."""
    answer.status_code = HTTPStatus.OK
    answer.set_data(body(row))
    answer.headers.pop("ETag", None)
    if row["finished_at"] is not None:
        answer.headers.pop("Retry-After", None)
    return answer


def _body_of(call: Call) -> Callable[[Row], str]:
    """Return the function that writes the job's JSON for this caller, in any thread."""
    root, operator = at(""), call.scope.principal.operator
    redaction = services().redaction if call.scope.hides else None

    def body(row: Row) -> str:
        return dumps(job_body(redaction.row(row) if redaction else row, root, operator=operator))

    return body


class LiveStreams(Hub, Live):
    """The live changes that the hub reads."""

    def await_end(self, call: Call, query: WaitQuery, job_id: UUID, answer: Response) -> Response:
        """Return the response for the caller: at once if the job has ended, or if the request has no `wait`.

        The job is stored, so a failure here is not reported: the response is the same as without `wait`.
        """
        seconds = min(query.wait, MAX_WAIT_SECONDS)
        if not seconds or request.method == "HEAD":
            return answer
        subscriber = Awaiting(View.of(call.scope, job_id, until=time() + seconds))
        with suppress(ServerFull, StreamLimit, *OUTAGE):
            self.join(subscriber, most=most_on_threads())
            try:
                # Read after joining: the hub reports any later end.
                with call.scope.reading() as reader:
                    row = stored.find(reader, job_id, call.scope.visible_user)
            except BaseException:
                self.leave(subscriber)
                raise
            if row is None or row["finished_at"] is not None:
                self.leave(subscriber)
                return answer if row is None else settled(answer, row, _body_of(call))
            subscriber.see(row)
            end = EndOfWait(answer, subscriber, _body_of(call), partial(self.leave, subscriber))
            return AwaitedResponse(end, end.close)
        return answer


def live_streams(settings: Settings, logins: Logins, root: str) -> LiveStreams:
    """Return the live changes of this process; links in streams start with `root`."""
    conninfo = logins.conninfo(
        logins.web, search_path="turno,pg_temp", application="turno-watch", timeouts=HUB_TIMEOUTS
    )

    def connect() -> TimeoutConnection:
        connection = TimeoutConnection.connect(conninfo, autocommit=True, connect_timeout=3)
        connection.answer_within = HUB_ANSWERS_WITHIN
        assert_pinned(connection, logins.web)
        return connection

    live = LiveStreams(
        connect=connect,
        events=StreamEvents(root, Redaction(settings.redact, named_handlers(settings.handlers).handlers)),
        most=settings.limits.streams,
        most_per_tenant=settings.limits.streams_per_tenant or max(1, settings.limits.streams // 2),
        most_per_user=settings.limits.streams_per_user,
    )
    atexit.register(live.stop)
    return live
