"""Hints to residents: coalesced, sent from a thread, and none is lost because the process stops."""

from __future__ import annotations

from threading import Event, Thread
from uuid import uuid4

from turno.jobs.job import JobRef
from turno.queues.interface import PoolQueue
from turno.testing.wait import wait_until

REF = JobRef("suc0001", uuid4())


def test_hint_during_a_send_is_sent_before_the_stop() -> None:
    sent: list[str] = []
    sending, go_on = Event(), Event()

    def notify() -> None:
        sent.append("hint")
        sending.set()
        go_on.wait(60)

    queue = PoolQueue(notify=notify, hang_up=lambda: sent.append("hung up"))
    assert queue.offer(REF)
    assert sending.wait(60)
    assert queue.offer(REF)
    stopping = Thread(target=queue.close)
    stopping.start()
    assert wait_until(lambda: not queue.offer(REF), within=10)  # the queue knows that it is closed before it continues
    go_on.set()
    stopping.join(60)
    assert sent == ["hint", "hint", "hung up"]


def test_queue_without_offers_sends_nothing() -> None:
    sent: list[str] = []
    PoolQueue(notify=lambda: sent.append("hint"), hang_up=lambda: sent.append("hung up")).close()
    assert sent == ["hung up"]
