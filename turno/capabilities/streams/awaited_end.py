"""?wait=<seconds>: respond when the job has ended or the time is over; with an event loop, no thread waits."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from time import time
from typing import TYPE_CHECKING, cast
from uuid import UUID

from flask import Response, g, request

from turno.capabilities.streams.awaiting import Awaiting, Row
from turno.capabilities.streams.hub import Hub, ServerFull, StreamLimit
from turno.capabilities.streams.response import LiveResponse, most_on_threads
from turno.capabilities.streams.subscriber import View
from turno.store.api import jobs as stored
from turno.store.outage import OUTAGE
from turno.web.api.job_body import job_body
from turno.web.responses import dumps
from turno.web.routes import Call
from turno.web.services import WaitQuery, at, services

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

MAX_WAIT_SECONDS = 30  # seconds that a request waits at most


class EndOfWait:
    """The body of a response that begins at the end of its job, or else of the time, with the state of the job then."""

    def __init__(
        self, response: Response, subscriber: Awaiting, body: Callable[[Row], str], leave: Callable[[], None]
    ) -> None:
        self._response = response
        self._subscriber = subscriber
        self._body = body
        self.close = leave

    def begins_by(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> "EndOfWait":
        """Return this body, which calls `start_response` before its first part."""
        self._begin = partial(self._response, environ, start_response)
        return self

    def __iter__(self) -> Iterator[bytes]:
        self._subscriber.wait()
        return iter(self._settled())

    async def __aiter__(self) -> AsyncIterator[bytes]:
        await self._subscriber.wait_in_task()
        for part in self._settled():
            yield part

    def _settled(self) -> Iterable[bytes]:
        self.close()
        row = self._subscriber.row
        if row is not None and (row["finished_at"] is not None or self._response.status_code != HTTPStatus.ACCEPTED):
            settled(self._response, row, self._body)
        return self._begin()


class AwaitedResponse(LiveResponse):
    """A response without a status before the end of its job."""

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Return the body; it starts the response."""
        del g.turno_leave
        return cast("EndOfWait", self.response).begins_by(environ, start_response)


def await_end(hub: Hub, call: Call, query: WaitQuery, job_id: UUID, answer: Response) -> Response:
    """Return the response that the caller waits for: at once if the job has ended, or if the request has no `wait`.

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
        hub.join(subscriber, most=most_on_threads())
        try:
            # Read after joining: the hub reports any later end.
            with call.scope.reading() as reader:
                row = stored.find(reader, job_id, call.scope.visible_user)
        except BaseException:
            hub.leave(subscriber)
            raise
        if row is None or row["finished_at"] is not None:
            hub.leave(subscriber)
            return answer if row is None else settled(answer, row, _body_of(call))
        subscriber.see(row)
        end = EndOfWait(answer, subscriber, _body_of(call), partial(hub.leave, subscriber))
        return AwaitedResponse(end, end.close)
    return answer


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
