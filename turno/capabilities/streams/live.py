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

from turno.capabilities.streams.hub import Hub
from turno.capabilities.streams.stream_events import RETRY, StreamEvents, close_event
from turno.capabilities.streams.subscriber import CloseReason, Subscriber, View
from turno.http_server.request_threads import THREAD_SHARES
from turno.jobs.handler import named_handlers
from turno.jobs.redaction import Redaction
from turno.settings import Settings
from turno.store.api import jobs as stored
from turno.store.outage import OUTAGE
from turno.tenancy.identity.connections import TimeoutConnection
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.session import SERVICE_TIMEOUTS, as_api, assert_pinned
from turno.web.api.job_body import job_body
from turno.web.responses import Problem, dumps
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
            if part := await self._next():
                yield part
                continue
            try:
                async with asyncio.timeout(self._pause()):
                    await woken.wait()
            except TimeoutError:
                pass
            except asyncio.CancelledError:  # the server ends its tasks, or the client has left
                self._subscriber.end(CloseReason.SHUTTING_DOWN)

    async def _next(self) -> bytes:
        """Return the bytes to send now."""
        raise NotImplementedError

    def _pause(self) -> float:
        """Return the seconds for which a subscriber that is not woken has nothing to send."""
        return max(0.0, self._subscriber.view.until - time())


class Frames(LiveBody):
    """The bytes of a stream: events, comments that keep the connection alive, and the end."""

    _due: float | None = None  # of the next comment; None before the first part

    async def _next(self) -> bytes:
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
    if THREAD_SHARES in request.environ:
        return None
    return services().settings.web_threads // 2 if request.environ["wsgi.multithread"] else 0


class EndOfWait(LiveBody):
    """The body of a response that begins at the end of its job, or else of the time, with the state of the job then."""

    begin: Callable[[], Iterable[bytes]]  # starts the response and returns its parts

    def __init__(
        self, response: Response, subscriber: Subscriber, settle: Callable[[Response], bool], leave: Callable[[], None]
    ) -> None:
        super().__init__(subscriber, leave)
        self.response = response
        self._settle = settle

    async def _next(self) -> bytes:
        self._over = self._subscriber.take()[1] is not None or time() >= self._subscriber.view.until
        if not self._over:
            return b""
        self.close()
        with suppress(*OUTAGE):
            await asyncio.to_thread(self._settle, self.response)
        return b"".join(self.begin())


class AwaitedResponse(LiveResponse):
    """A response without a status before the end of its job."""

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Return the body; it starts the response."""
        del g.turno_leave
        end = cast("EndOfWait", self.response)
        end.begin = partial(end.response, environ, start_response)
        return end


def settling(call: Call, job_id: UUID) -> Callable[[Response], bool]:
    """Return the function that sets a response to the state of the job, in any thread, and returns whether it ended.

    A job that does not exist counts as ended. The response to a submission changes with the end of its job only.
    """
    application, scope, root = services(), call.scope, at("")

    def settle(response: Response) -> bool:
        with application.connection() as connection, as_api(connection, scope.tenant) as reader:
            row = stored.find(reader, job_id, scope.visible_user)
        ended = row is None or row["finished_at"] is not None
        if row is not None and (ended or response.status_code != HTTPStatus.ACCEPTED):
            seen = application.redaction.row(row) if scope.hides else row
            response.status_code = HTTPStatus.OK
            response.set_data(dumps(job_body(seen, root, operator=scope.principal.operator)))
            response.headers.pop("ETag", None)
            if ended:
                response.headers.pop("Retry-After", None)
        return ended

    return settle


class LiveStreams(Hub, Live):
    """The live changes that the hub reads."""

    def await_end(self, call: Call, query: WaitQuery, job_id: UUID, answer: Response) -> Response:
        """Return the response for the caller: at once if the job has ended, or if the request has no `wait`.

        The job is stored, so a failure here is not reported: the response is the same as without `wait`.
        """
        seconds = min(query.wait, MAX_WAIT_SECONDS)
        if not seconds or request.method == "HEAD":
            return answer
        subscriber, settle = Subscriber(View.of(call.scope, job_id, until=time() + seconds)), settling(call, job_id)
        with suppress(Problem, *OUTAGE):
            self.join(subscriber, most=most_on_threads())
            leave = partial(self.leave, subscriber)
            try:
                ended = settle(answer)  # after joining: the hub reports any later end
            except BaseException:
                leave()
                raise
            if not ended:
                end = EndOfWait(answer, subscriber, settle, leave)
                return AwaitedResponse(end, end.close)
            leave()
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
