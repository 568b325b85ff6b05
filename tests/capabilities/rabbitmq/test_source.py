"""A consumer's source and the messages of its broker process; the test holds the far end of their socket."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Collection, Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from turno.capabilities.rabbitmq.message import Message
from turno.capabilities.rabbitmq.source import POLL_PAUSE, RESTART_PAUSE, SILENT_AFTER, BrokerRefused, BrokerSource
from turno.jobs.handler import Registry
from turno.jobs.job import Batch, Claim
from turno.store.engine.engine import Engine
from turno.tenancy.identity.tenant import HandlerLogin
from turno.worker.sources.source import Source

WORKER = uuid4()
MESSAGE = Message(uuid4(), "t_0123456789ab", 0)


def a_claim(job_id: UUID) -> Claim:
    login = HandlerLogin(slug="suc0001", schema=MESSAGE.schema, role="r", epoch=0)
    return Claim(job_id=job_id, token=uuid4(), attempt=1, type="faulty", version=1, tenant_id=1, login=login)


class FakeEngine(Engine):
    """Claims every message except for `ended` jobs."""

    def __init__(self) -> None:
        self.ended: set[UUID] = set()

    def row(self, _make: object, _statement: object, *parameters: Any) -> Any:
        job_id = parameters[1]
        return None if job_id in self.ended else a_claim(job_id)


class Looks(Source):
    """Finds one job at each call."""

    types = ()
    without: Collection[str] = ()

    def __init__(self) -> None:
        self.requested_for: list[int] = []

    @property
    def requested(self) -> int:
        return len(self.requested_for)

    def take(self, worker: UUID, free: int, without: Collection[str] = ()) -> list[Batch]:
        del worker
        self.requested_for.append(free)
        self.without = without
        return [(a_claim(uuid4()),)]

    def learn(self, job_type: str, seconds: float) -> None:
        raise AssertionError(f"{job_type} was not run here, {seconds} s")

    def poll_in(self) -> float:
        return 0.5

    def read_hints(self) -> None:
        raise AssertionError("no process listens while there is a broker")


class Scene:
    """A source with a stopped clock, and the far ends of its channels, one for each broker process so far."""

    def __init__(self) -> None:
        self.now = 100.0
        self.engine, self.looks = FakeEngine(), Looks()
        self.ends: list[socket.socket] = []
        self.source = BrokerSource(
            engine=self.engine, registry=Registry({}), launch=self._launch, polling=self.looks,
            chance=lambda: 0.5, clock=lambda: self.now,
        )  # fmt: skip
        self.source.descriptor()

    def _launch(self, descriptor: int) -> subprocess.Popen[bytes]:
        self.ends.append(socket.socket(fileno=os.dup(descriptor)))
        self.ends[-1].settimeout(0)
        return subprocess.Popen([sys.executable, "-c", ""])

    def says(self, *packets: str) -> None:
        for packet in packets:
            self.ends[-1].send(packet.encode())
        self.source.read_hints()

    def hands_over(self, receipt: str, message: Message) -> None:
        self.says(f"job {receipt} {message.encode().decode()}")

    def new_messages(self) -> list[str]:
        """The messages to the broker process since the last call."""
        packets = []
        while True:
            try:
                packets.append(self.ends[-1].recv(1024).decode().strip())
            except BlockingIOError:
                return packets


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    for end in scene.ends:
        end.close()
    if scene.source._broker_process is not None:
        scene.source._broker_process.dismiss()


def test_source_grants_exactly_the_free_children(scene: Scene) -> None:
    assert scene.source.take(WORKER, 3) == []
    assert scene.new_messages() == ["grant 3"]
    scene.source.take(WORKER, 3)
    assert scene.new_messages() == []
    scene.hands_over("1.1", MESSAGE)
    ((claim,),) = scene.source.take(WORKER, 3)
    assert claim.job_id == MESSAGE.job_id
    assert scene.new_messages() == ["done 1.1"]  # two are granted still, and two children are free


def test_message_of_an_unclaimable_job_is_finished(scene: Scene) -> None:
    scene.engine.ended = {MESSAGE.job_id}
    scene.source.take(WORKER, 1)
    scene.hands_over("1.1", MESSAGE)
    assert scene.source.take(WORKER, 1) == []
    assert scene.new_messages() == ["grant 1", "done 1.1", "grant 1"]


def test_after_a_silence_it_looks_for_all_that_are_free(scene: Scene) -> None:
    scene.source.take(WORKER, 3)
    scene.now += SILENT_AFTER - 0.1
    assert scene.source.take(WORKER, 3) == []
    assert scene.looks.requested == 0
    scene.now += 0.1
    assert len(scene.source.take(WORKER, 3)) == 1
    assert scene.looks.requested_for == [3]


def test_receiving_source_still_looks_for_one_job_at_times(scene: Scene) -> None:
    """A job without a message must not wait for a silence that never comes."""
    scene.says("here")
    for tenth in range(1, 50):
        scene.now = 100 + tenth / 10
        scene.source.take(WORKER, 3)
        scene.hands_over(f"1.{tenth}", MESSAGE)
    assert scene.looks.requested_for == [1, 1]  # 2 s and 4 s after the beginning
    scene.now += SILENT_AFTER + 0.1
    scene.source.take(WORKER, 3)
    assert scene.looks.requested_for == [1, 1, 3]


def test_broker_may_deliver_between_two_looks(scene: Scene) -> None:
    scene.says("here")
    scene.now += SILENT_AFTER
    assert len(scene.source.take(WORKER, 1)) == 1
    assert scene.source.take(WORKER, 1) == []
    assert scene.new_messages() == ["grant 1"]
    scene.now += POLL_PAUSE
    assert len(scene.source.take(WORKER, 1)) == 1
    scene.says("away")
    assert [len(scene.source.take(WORKER, 1)) for _ in range(2)] == [1, 1]


def test_while_the_broker_is_away_it_looks_at_once(scene: Scene) -> None:
    assert scene.source.take(WORKER, 1) == []
    scene.says("away")
    assert scene.source.poll_in() == 0.5
    assert len(scene.source.take(WORKER, 1)) == 1


def test_pause_gives_back_unclaimed_messages(scene: Scene) -> None:
    scene.source.take(WORKER, 2)
    scene.hands_over("1.7", MESSAGE)
    scene.source.pause()
    assert scene.new_messages() == ["grant 2", "revoke", "back 1.7"]
    scene.source.pause()
    assert scene.new_messages() == []
    assert scene.source.take(WORKER, 1) == []
    assert scene.new_messages() == ["grant 1"]


def test_for_the_reserve_it_looks_and_takes_no_message(scene: Scene) -> None:
    scene.source.take(WORKER, 1)
    scene.hands_over("1.1", MESSAGE)
    assert len(scene.source.take(WORKER, 1, {"suc0001"})) == 1
    assert (scene.looks.requested, scene.looks.without) == (1, {"suc0001"})
    assert scene.new_messages() == ["grant 1", "back 1.1"]


def test_dead_broker_process_is_replaced_while_source_looks(scene: Scene) -> None:
    scene.source.take(WORKER, 1)
    scene.hands_over("1.1", MESSAGE)
    scene.ends[0].close()
    scene.source.read_hints()
    assert scene.source.descriptor() is None
    assert len(scene.source.take(WORKER, 1)) == 1
    assert scene.looks.requested == 1
    scene.now += RESTART_PAUSE * 1.5
    assert scene.source.descriptor() is not None
    assert len(scene.ends) == 2
    scene.source.take(WORKER, 2)
    assert scene.new_messages() == ["grant 1"]


def test_a_refusal_is_raised_with_its_sentence(scene: Scene) -> None:
    with pytest.raises(BrokerRefused, match="the broker's queue x is not as Turno makes it"):
        scene.says("refused the broker's queue x is not as Turno makes it")
