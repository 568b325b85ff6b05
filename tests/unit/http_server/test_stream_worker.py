"""A web process that is told to end has its streams end at once, and does not end before they have."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import pytest
from gunicorn.workers.gthread import ThreadWorker

from tests.subscribers import subscriber
from turno.http_server.application import Application
from turno.http_server.stream_worker import StreamWorker
from turno.streaming.stream_loop import HandedOver, StreamLoop
from turno.streaming.subscriber import CloseReason
from turno.web.thread_shares import ThreadShares


def serving(close_event: Callable[[CloseReason], bytes]) -> tuple[StreamWorker, socket.socket]:
    """A worker that serves nothing but one stream, and the reader's end of this."""
    loop = StreamLoop(close_event=close_event, left=lambda _subscriber: None)
    loop.start()
    ours, theirs = socket.socketpair()
    ours.settimeout(10)
    loop.adopt(theirs, HandedOver(b"head", subscriber()))
    assert ours.recv(100) == b"head"
    worker = object.__new__(StreamWorker)
    worker.wsgi = Application(lambda _environ, _start: [], loop, places=ThreadShares(2), largest_body=0)
    return worker, ours


def test_a_process_with_requests_under_way_ends_its_streams_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ThreadWorker, "handle_exit", lambda _worker, _signal, _frame: None)
    worker, ours = serving(lambda reason: reason.value.encode())
    with ours:
        worker.handle_exit(None, None)
        assert ours.recv(100) == b"shutting-down"


def test_a_process_whose_streams_say_goodbye_slowly_waits_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, may_answer = threading.Event(), threading.Event()

    def slow(reason: CloseReason) -> bytes:
        asked.set()
        may_answer.wait(10)
        return reason.value.encode()

    monkeypatch.setattr(ThreadWorker, "run", lambda _worker: None)
    worker, ours = serving(slow)
    running = threading.Thread(target=worker.run)
    running.start()
    assert asked.wait(10)
    running.join(0.2)
    assert running.is_alive()
    may_answer.set()
    running.join(10)
    with ours:
        assert ours.recv(100) == b"shutting-down"
