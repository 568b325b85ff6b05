"""The frames of a subscriber, by a thread and by an event loop: in order, kept alive, with an end."""

from __future__ import annotations

import asyncio
import threading
from time import time
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tests.subscribers import state, subscriber
from turno.capabilities.streams import response as stream_response
from turno.capabilities.streams.awaiting import Awaiting
from turno.capabilities.streams.response import KEEP_ALIVE, Frames
from turno.capabilities.streams.stream_events import RETRY
from turno.capabilities.streams.subscriber import CloseReason

if TYPE_CHECKING:
    from collections.abc import Callable

    from turno.capabilities.streams.subscriber import Subscriber


def by_thread(frames: Frames) -> list[bytes]:
    return list(frames)


def by_event_loop(frames: Frames) -> list[bytes]:
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
def test_reason_of_the_end_follows_the_backlog(read: Callable[[Frames], list[bytes]]) -> None:
    watching = subscriber()
    watching.offer(state(b"first"))

    def end() -> None:
        watching.offer(state(b"last"))
        watching.end(CloseReason.JOB_ENDED)

    later(end)
    told = read(frames_of(watching))
    assert told[:2] == [bytes(RETRY), b"first"]
    assert b"".join(told[2:]) == b'lastevent:bye\ndata:{"reason": "job-ended"}\n\n'


@both
def test_a_session_that_is_over_ends_its_stream(read: Callable[[Frames], list[bytes]]) -> None:
    watching = subscriber(until=time() + 0.1)
    threading.Timer(5, watching.end, [CloseReason.JOB_GONE]).start()
    assert b"session-over" in read(frames_of(watching))[-1]


@both
def test_a_quiet_stream_is_kept_alive(read: Callable[[Frames], list[bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_response, "KEEP_ALIVE_SECONDS", 0.02)
    watching = subscriber()
    later(lambda: watching.end(CloseReason.JOB_ENDED))
    assert KEEP_ALIVE in read(frames_of(watching))


@pytest.mark.parametrize("in_task", [False, True])
def test_a_wait_ends_with_its_job_and_with_its_time(*, in_task: bool) -> None:
    def wait(waiting: Awaiting) -> None:
        if in_task:
            asyncio.run(waiting.wait_in_task())
        else:
            waiting.wait()

    ended = Awaiting(subscriber(job_id=uuid4()).view)
    later(lambda: ended.end(CloseReason.JOB_ENDED))
    wait(ended)
    assert ended.take()[1] == CloseReason.JOB_ENDED
    over = Awaiting(subscriber(job_id=uuid4(), until=time() + 0.1).view)
    wait(over)
    assert time() >= over.view.until


def test_an_older_row_does_not_replace_a_later_one() -> None:
    waiting = Awaiting(subscriber(job_id=uuid4()).view)
    for row in ({"revision": 2}, {"revision": 1}):
        waiting.see(row)
    assert waiting.row == {"revision": 2}
