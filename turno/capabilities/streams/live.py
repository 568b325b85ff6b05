"""The live changes of a web process: its streams, and ?wait=<seconds>, the response at the end of a job.

With an event loop, no thread waits.
"""

import atexit
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from time import time
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from flask import Response, g, request

from turno.capabilities.streams.hub import Hub, ServerFull, StreamLimit
from turno.capabilities.streams.response import LiveBody, LiveResponse, most_on_threads
from turno.capabilities.streams.stream_events import StreamEvents
from turno.capabilities.streams.subscriber import Awaiting, View
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

MAX_WAIT_SECONDS = 30  # seconds that a request waits at most
# Milliseconds. One session reads for all streams of a process: a tenant with locked tables must not delay it.
HUB_TIMEOUTS = SERVICE_TIMEOUTS | {"lock_timeout": "200", "statement_timeout": "2000"}
HUB_ANSWERS_WITHIN = 5.0  # seconds

Row = dict[str, Any]


class LiveStreams(Hub, Live):
    """The live changes that the hub reads."""

    def await_end(self, call: Call, query: WaitQuery, job_id: UUID, answer: Response) -> Response:
        """Return the response for the caller: at once if the job has ended, or if the request has no `wait`.

        The job is stored, so a failure here is not reported: the response is the same as without `wait`.
        """
        seconds = min(query.wait, MAX_WAIT_SECONDS)
        if not seconds or request.method == "HEAD":
            return answer
        principal = call.scope.principal
        subscriber = Awaiting(
            View(
                tenant=call.scope.tenant,
                user=principal.user,
                job_id=job_id,
                operator=principal.operator,
                issued_at=principal.issued_at,
                until=min(principal.expires_at, time() + seconds),
            )
        )
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
