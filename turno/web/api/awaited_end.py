"""?wait=<seconds>: answer when the job has ended or the time is over; where a loop serves streams, no thread waits."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from time import time
from typing import TYPE_CHECKING, Annotated, Any, cast
from uuid import UUID

from flask import Response, g, request

from turno.store.api import jobs as stored
from turno.store.outage import OUTAGE
from turno.streaming.awaiting import Awaiting, Row
from turno.streaming.hub import ServerFull, StreamLimit
from turno.streaming.stream_loop import STREAMS, HandedOver
from turno.streaming.subscriber import View
from turno.web.addresses import at
from turno.web.api.job_body import job_body
from turno.web.api.stream_response import head_of, most_on_threads
from turno.web.http.json_answers import dumps
from turno.web.http.query import described
from turno.web.routes import Call
from turno.web.services import services

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

LONGEST_WAIT = 300  # seconds that may be asked for; MAX_WAIT_SECONDS says how long the request waits indeed


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitQuery:
    """How long the caller waits for the job's end."""

    wait: Annotated[
        int,
        described(
            "Seconds to wait for the job's end before the answer; the server may wait for less.", ge=0, le=LONGEST_WAIT
        ),
    ] = 0


class AwaitedResponse(Response):
    """An answer that is given when the job has ended, or else, once the time is over, as it is.

    It has a place among the streams until then: `left` gives it back.
    """

    def __init__(
        self, answer: Response, subscriber: Awaiting, *, body: Callable[[Row], str], left: Callable[[], None]
    ) -> None:
        super().__init__(answer.get_data(), answer.status, answer.headers)
        self._subscriber = subscriber
        self._body = body
        self._left = left
        self._begun = False

    def give_up(self) -> None:
        """Give the place back if the answer never began."""
        if not self._begun:
            self._left()

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Wait and answer, or raise HandedOver for the server to hand the connection to its loop."""
        self._begun = True
        if STREAMS in environ:
            self._subscriber.answer = partial(self._whole, environ)
            raise HandedOver(b"", self._subscriber)
        try:
            self._subscriber.wait()
        finally:
            self._left()
        self._settle()
        return super().__call__(environ, start_response)

    def _settle(self) -> None:
        row = self._subscriber.row
        if row is not None and (row["finished_at"] is not None or self.status_code != HTTPStatus.ACCEPTED):
            settled(self, row, self._body)

    def _whole(self, environ: dict[str, Any]) -> bytes:
        self._settle()
        return head_of(self, environ) + self.get_data()


def await_end(call: Call, query: WaitQuery, job_id: UUID, answer: Response) -> Response:
    """Return the answer that the caller waits for: at once if the job has ended, or if nobody waits.

    The job is there whatever fails here, so no failure is the caller's: it is answered as if it had not waited.
    """
    seconds = min(query.wait, services().settings.max_wait_seconds)
    if not seconds or request.method == "HEAD":
        return answer
    principal, hub = call.scope.principal, services().hub
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
            # Only now: if it ends after this reading, the hub tells.
            with call.scope.reading() as reader:
                row = stored.find(reader, job_id, call.scope.visible_user)
        except BaseException:
            hub.leave(subscriber)
            raise
        if row is None or row["finished_at"] is not None:
            hub.leave(subscriber)
            return answer if row is None else settled(answer, row, _body_of(call))
        subscriber.see(row)
        g.turno_stream = AwaitedResponse(answer, subscriber, body=_body_of(call), left=partial(hub.leave, subscriber))
        return cast("Response", g.turno_stream)
    return answer


def settled(answer: Response, row: Row, body: Callable[[Row], str]) -> Response:
    """Have an answer tell of the job as this row has it."""
    answer.status_code = HTTPStatus.OK
    answer.set_data(body(row))
    answer.headers.pop("ETag", None)
    if row["finished_at"] is not None:
        answer.headers.pop("Retry-After", None)
    return answer


def _body_of(call: Call) -> Callable[[Row], str]:
    """Return what writes the job's JSON for this caller, in any thread."""
    root, operator = at(""), call.scope.principal.operator
    redaction = services().redaction if call.scope.hides else None

    def body(row: Row) -> str:
        return dumps(job_body(redaction.row(row) if redaction else row, root, operator=operator))

    return body
