"""A web process does not end before its streams have."""

from __future__ import annotations

import socket
import threading

import pytest
from gunicorn.workers.gthread import ThreadWorker

from app.watch.stream_loop import HandedOver, StreamLoop
from app.watch.viewer import Farewell
from cli.stream_worker import Application, StreamWorker
from tests.viewers import viewer


def test_a_process_whose_streams_say_goodbye_slowly_waits_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, may_answer = threading.Event(), threading.Event()

    def slow(reason: Farewell) -> bytes:
        asked.set()
        may_answer.wait(10)
        return reason.value.encode()

    loop = StreamLoop(farewell=slow, left=lambda _viewer: None)
    loop.start()
    ours, theirs = socket.socketpair()
    loop.adopt(theirs, HandedOver(b"head", viewer()))
    ours.settimeout(10)
    assert ours.recv(100) == b"head"
    worker = object.__new__(StreamWorker)
    worker.wsgi = Application(lambda _environ, _start: [], loop)
    monkeypatch.setattr(ThreadWorker, "run", lambda _worker: None)
    serving = threading.Thread(target=worker.run)
    serving.start()
    assert asked.wait(10)
    serving.join(0.2)
    assert serving.is_alive()
    may_answer.set()
    serving.join(10)
    with ours:
        assert ours.recv(100) == b"shutting-down"
