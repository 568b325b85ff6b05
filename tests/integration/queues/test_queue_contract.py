"""The promises of every backend of QueueInterface; one suite, run over each of them."""

import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.installation import ExampleInstallation
from turno.capability import backends
from turno.jobs.job import JobRef
from turno.queues.interface import QueueInterface
from turno.testing.wait import wait_until
from turno.wiring.shared import exec_queue, queue_named


def with_exec(example: ExampleInstallation) -> QueueInterface:
    return exec_queue(example.settings, example.environment)


def with_pool(example: ExampleInstallation) -> QueueInterface:
    example.start_pool()
    return queue_named("pool", example.settings)


def with_rabbitmq(example: ExampleInstallation) -> QueueInterface:
    example.start_consumer()
    return queue_named("rabbitmq", example.settings)


OPEN = {"exec": with_exec, "pool": with_pool, "rabbitmq": with_rabbitmq}


@pytest.fixture(params=["exec", "pool", pytest.param("rabbitmq", marks=pytest.mark.rabbitmq)])
def queue(example: ExampleInstallation, request: pytest.FixtureRequest) -> Iterator[QueueInterface]:
    example.backend = request.param
    if request.param == "rabbitmq":
        example.extra["RABBITMQ_URL"] = request.getfixturevalue("rabbitmq").url
    opened = OPEN[request.param](example)
    yield opened
    opened.close()


def test_its_name_is_a_value_of_the_setting(example: ExampleInstallation, queue: QueueInterface) -> None:
    assert queue.name == example.backend
    assert set(OPEN) == set(backends())


def test_an_offered_job_is_run(example: ExampleInstallation, queue: QueueInterface) -> None:
    job_id = example.enqueue({"order_ids": example.order_ids()[:3]})
    assert queue.offer(JobRef("suc0001", job_id))
    assert wait_until(lambda: example.job(job_id)["status"] == "completed", within=30)


def test_offering_twice_runs_once(example: ExampleInstallation, queue: QueueInterface) -> None:
    job_id = example.enqueue({"order_ids": example.order_ids()[:3]})
    for _ in range(5):
        queue.offer(JobRef("suc0001", job_id))
    assert wait_until(lambda: example.job(job_id)["status"] == "completed", within=30)
    assert wait_until(lambda: example.rows("SELECT 1 FROM turno.tickets") == [], within=30)
    assert example.job(job_id)["attempt"] == 1


def test_offer_of_an_unknown_job_is_harmless(example: ExampleInstallation, queue: QueueInterface) -> None:
    queue.offer(JobRef("suc0001", uuid4()))
    queue.offer(JobRef("nobody", uuid4()))
    job_id = example.enqueue({"order_ids": example.order_ids()[:1]})
    assert wait_until(lambda: queue.offer(JobRef("suc0001", job_id)), within=30)
    assert wait_until(lambda: example.job(job_id)["status"] == "completed", within=30)


def test_a_hint_that_cannot_be_sent_is_no_error(
    example: ExampleInstallation, queue: QueueInterface, monkeypatch: pytest.MonkeyPatch
) -> None:
    def out_of_processes(*_arguments: object, **_options: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("subprocess.Popen.__init__", out_of_processes)
    monkeypatch.setattr("subprocess.Popen.__del__", lambda _self: None)
    monkeypatch.setattr("turno.store.engine_link.EngineLink._run", out_of_processes)
    queue.offer(JobRef("suc0001", example.enqueue({"order_ids": [1]})))


def test_closing_it_twice_is_fine(queue: QueueInterface) -> None:
    queue.close()
    queue.close()


def test_no_child_stays_a_zombie(example: ExampleInstallation, queue: QueueInterface) -> None:
    job_id = example.enqueue({"order_ids": example.order_ids()[:1]})
    queue.offer(JobRef("suc0001", job_id))
    assert wait_until(lambda: example.job(job_id)["status"] == "completed", within=30)
    assert wait_until(lambda: zombies() == [], within=10)


def zombies() -> list[str]:
    """Ended children of this process without a wait()."""
    result = []
    for entry in Path("/proc").iterdir():
        try:
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if state == "Z" and parent == str(os.getpid()):
            result.append(entry.name)
    return result
