"""The frames of a subscriber, by a thread and by an event loop: in order, kept alive, with an end."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from time import time
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from flask import Response
from psycopg import OperationalError

from tests.subscribers import state, subscriber
from turno.capabilities.streams import live as stream_response
from turno.capabilities.streams.live import KEEP_ALIVE, EndOfWait, Frames
from turno.capabilities.streams.stream_events import RETRY
from turno.capabilities.streams.subscriber import CloseReason

if TYPE_CHECKING:
    from collections.abc import Callable

    from turno.capabilities.streams.live import LiveBody
    from turno.capabilities.streams.subscriber import Subscriber


def by_thread(frames: LiveBody) -> list[bytes]:
    return list(frames)


def by_event_loop(frames: LiveBody) -> list[bytes]:
    async def read() -> list[bytes]:
        return [part async for part in frames]

    return asyncio.run(read())


def frames_of(watching: Subscriber) -> Frames:
    return Frames(watching, lambda: None)


def later(work: Callable[[], object]) -> None:
    timer = threading.Timer(0.1, work)
    timer.daemon = True
    timer.start()


both = pytest.mark.parametrize("read", [by_thread, by_event_loop])


@both
def test_reason_of_the_end_follows_the_backlog(read: Callable[[LiveBody], list[bytes]]) -> None:
    watching = subscriber()
    watching.offer(state(b"first"))

    def end() -> None:
        watching.offer(state(b"last"))
        watching.end(CloseReason.JOB_ENDED)

    later(end)
    reply = read(frames_of(watching))
    assert reply[:2] == [RETRY, b"first"]
    assert b"".join(reply[2:]) == b'lastevent:bye\ndata:{"reason": "job-ended"}\n\n'


@both
def test_a_session_that_is_over_ends_its_stream(read: Callable[[LiveBody], list[bytes]]) -> None:
    watching = subscriber(until=time() + 0.1)
    threading.Timer(5, watching.end, [CloseReason.JOB_GONE]).start()
    assert b"session-over" in read(frames_of(watching))[-1]


@both
def test_a_quiet_stream_is_kept_alive(read: Callable[[LiveBody], list[bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_response, "KEEP_ALIVE_SECONDS", 0.02)
    watching = subscriber()
    later(lambda: watching.end(CloseReason.JOB_ENDED))
    assert KEEP_ALIVE in read(frames_of(watching))


def test_a_cancelled_stream_ends_with_its_reason() -> None:
    async def read() -> bytes:
        parts = aiter(frames_of(subscriber()))
        assert await anext(parts) == RETRY
        waiting = asyncio.ensure_future(anext(parts))
        await asyncio.sleep(0)
        waiting.cancel()
        return await waiting

    assert b"shutting-down" in asyncio.run(read())


@both
def test_a_wait_ends_with_its_job_and_with_its_time(read: Callable[[LiveBody], list[bytes]]) -> None:
    def parts(waiting: Subscriber, state: bytes) -> list[bytes]:
        def settle(response: Response) -> bool:
            response.set_data(state)
            return True

        body = EndOfWait(Response(b"accepted", status=202), waiting, settle, left.set)
        body.begin = body.response.iter_encoded
        return read(body)

    left = threading.Event()
    ended = subscriber(job_id=uuid4())
    later(partial(ended.end, CloseReason.JOB_ENDED))
    assert parts(ended, b"noon") == [b"noon"]
    assert left.is_set()
    over = subscriber(job_id=uuid4(), until=time() + 0.1)
    assert parts(over, b"open") == [b"open"]
    assert time() >= over.view.until


def test_a_wait_answers_without_its_database() -> None:
    def settle(_response: Response) -> bool:
        raise OperationalError("the server is away")

    waiting = subscriber(job_id=uuid4(), until=time())
    body = EndOfWait(Response(b"accepted", status=202), waiting, settle, lambda: None)
    body.begin = body.response.iter_encoded
    assert by_thread(body) == [b"accepted"]
