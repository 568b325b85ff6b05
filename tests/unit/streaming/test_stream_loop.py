"""One thread serves every stream: none waits for another, each ends with its reason."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from time import monotonic, time
from typing import SupportsBytes
from uuid import uuid4

import pytest

from tests.subscribers import state, subscriber
from turno.servers.wait import wait_until
from turno.streaming.awaiting import Awaiting
from turno.streaming.stream_loop import KEEP_ALIVE, HandedOver, StreamLoop
from turno.streaming.subscriber import CloseReason, State, Subscriber

Open = Callable[[Subscriber], socket.socket]


def words(reason: CloseReason) -> SupportsBytes:
    return f"bye {reason}\n".encode()


@pytest.fixture
def left() -> list[Subscriber]:
    return []


@pytest.fixture
def loop(left: list[Subscriber]) -> Iterator[StreamLoop]:
    loop = StreamLoop(close_event=words, left=left.append, keep_alive=0.6, slow=1.5)
    loop.start()
    yield loop
    loop.stop()
    assert loop._thread is not None
    loop._thread.join(5)


@pytest.fixture
def opened(loop: StreamLoop) -> Iterator[Open]:
    ends = []

    def open_stream(watching: Subscriber) -> socket.socket:
        ours, theirs = socket.socketpair()
        ours.settimeout(10)
        loop.adopt(theirs, HandedOver(b"head\n", watching))
        ends.append(ours)
        return ours

    yield open_stream
    for end in ends:
        end.close()


def read_until(end: socket.socket, mark: bytes) -> bytes:
    found = b""
    while mark not in found:
        part = end.recv(65536)
        assert part, found
        found += part
    return found


def read_all(end: socket.socket) -> bytes:
    found, deadline = b"", monotonic() + 10
    while part := end.recv(65536):
        found += part
        assert monotonic() < deadline, "the stream goes on and on"
    return found


def test_what_waited_before_the_socket_came_is_sent_and_what_comes_later_too(opened: Open) -> None:
    watching = subscriber()
    watching.offer(state(b"first\n"))
    end = opened(watching)
    assert read_until(end, b"first\n") == b"head\nfirst\n"
    watching.offer(state(b"second\n"))
    assert read_until(end, b"second\n") == b"second\n"


def test_a_stream_ends_with_its_reason_after_what_waits(opened: Open, left: list[Subscriber]) -> None:
    watching = subscriber()
    end = opened(watching)
    watching.offer(state(b"last\n"))
    watching.end(CloseReason.JOB_ENDED)
    assert read_all(end) == b"head\nlast\nbye job-ended\n"
    assert wait_until(lambda: left == [watching], within=5)


def test_a_session_that_is_over_ends_its_stream(opened: Open) -> None:
    assert read_all(opened(subscriber(until=time() + 0.3))) == b"head\nbye session-over\n"


def test_a_quiet_stream_is_kept_alive(opened: Open) -> None:
    end = opened(subscriber())
    assert read_until(end, b": still here\n\n") == b"head\n: still here\n\n"


def test_a_client_that_never_reads_is_dropped_and_holds_up_nobody(
    loop: StreamLoop, opened: Open, left: list[Subscriber]
) -> None:
    deaf, hearing = subscriber(), subscriber()
    silent, end = opened(deaf), opened(hearing)
    job = state().key
    owed = 0
    for number in range(1, 200):
        frame = b"%d" % number + b"." * 100_000 + b"\n"
        deaf.offer(state(frame, key=job, revision=number))
        hearing.offer(state(b"%d\n" % number, key=job, revision=number))
        read_until(end, b"%d\n" % number)
        owed = max(owed, *(len(stream.rest) for stream in list(loop._streams.values())))
    assert owed < 300_000, "what a deaf client is owed does not grow"
    assert wait_until(lambda: left == [deaf], within=10)
    assert len(read_all(silent)) < 2_000_000


def test_a_slow_reader_gets_the_latest_state_in_the_end(opened: Open) -> None:
    watching = subscriber()
    end = opened(watching)
    job = state().key
    for number in range(1, 50):
        watching.offer(state(b"%d " % number + b"." * 100_000 + b"\n", key=job, revision=number))
    watching.offer(state(b"the latest\n", key=job, revision=50))
    found = read_until(end, b"the latest\n")
    assert found.count(b"\n") < 40, "states that were overtaken are left out"


def test_a_client_that_sends_or_hangs_up_is_no_reader(opened: Open, left: list[Subscriber]) -> None:
    talking, gone = subscriber(), subscriber()
    opened(talking).sendall(b"GET / HTTP/1.1\r\n\r\n")
    opened(gone).close()
    assert wait_until(lambda: set(left) == {talking, gone}, within=5)


class Unspeakable:
    def __bytes__(self) -> bytes:
        raise ValueError("no bytes")


def test_a_stream_that_cannot_be_served_ends_alone(opened: Open, left: list[Subscriber]) -> None:
    odd, sound = subscriber(), subscriber()
    end, other = opened(odd), opened(sound)
    assert read_until(end, b"head\n") + read_until(other, b"head\n") == b"head\nhead\n"
    odd.offer(State(uuid4(), 1, "", Unspeakable()))
    assert end.recv(100) == b""
    assert wait_until(lambda: left == [odd], within=5)
    sound.offer(state(b"still served\n"))
    assert read_until(other, b"served\n") == b"still served\n"


def test_a_fault_of_the_loop_itself_ends_no_stream(
    loop: StreamLoop, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching, faults = subscriber(), iter([ValueError("once")])
    looked = loop._check_streams

    def look() -> None:
        if fault := next(faults, None):
            raise fault
        looked()

    monkeypatch.setattr(loop, "_check_streams", look)
    end = opened(watching)
    assert read_until(end, b": still here\n\n")
    assert next(faults, None) is None
    watching.offer(state(b"still served\n"))
    assert read_until(end, b"served\n")


def test_a_connection_that_is_gone_before_it_is_taken_over_gives_its_place_back(
    loop: StreamLoop, left: list[Subscriber]
) -> None:
    watching = subscriber()
    gone, other = socket.socketpair()
    gone.close()
    with other, pytest.raises(OSError, match="descriptor"):
        loop.adopt(gone, HandedOver(b"head\n", watching))
    assert left == [watching]


def test_all_streams_end_within_a_second_also_those_that_do_not_read(
    loop: StreamLoop, opened: Open, left: list[Subscriber]
) -> None:
    watching = [subscriber() for _ in range(20)]
    ends = [opened(one) for one in watching]
    deaf = subscriber()
    opened(deaf)
    deaf.offer(state(b"." * 3_000_000))
    assert wait_until(lambda: len(loop) == 21, within=5)
    loop.stop()
    for end in ends:
        assert read_all(end).endswith(b"bye shutting-down\n")
    assert wait_until(lambda: len(left) == 21, within=20)


def test_who_waits_for_an_end_is_sent_one_answer_and_nothing_else(opened: Open, left: list[Subscriber]) -> None:
    waiting, watching = Awaiting(subscriber(job_id=uuid4()).view), subscriber()
    waiting.answer = lambda: b"the answer"
    end, beside = opened(waiting), opened(watching)
    read_until(beside, KEEP_ALIVE)
    waiting.offer(state(b"first\n"))
    waiting.end(CloseReason.JOB_ENDED)
    assert read_all(end) == b"head\nthe answer"
    assert wait_until(lambda: left == [waiting], within=5)


def test_an_older_row_does_not_replace_a_later_one() -> None:
    waiting = Awaiting(subscriber(job_id=uuid4()).view)
    for row in ({"revision": 2}, {"revision": 1}):
        waiting.see(row)
    assert waiting.row == {"revision": 2}
