"""The consumer of RabbitMQ as a process: it receives jobs from the broker, acknowledges at once, and leaves in
order."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from uuid import UUID, uuid4

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.adapters.select_connection import IOLoop

from cli.servers.private_rabbitmq import Node
from tests.broker import broker_channel
from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import Faulty
from turno.capabilities.rabbitmq.message import Message
from turno.capabilities.rabbitmq.receiver import Receiver
from turno.capabilities.rabbitmq.source import SILENT_AFTER
from turno.capabilities.rabbitmq.topology import EXCHANGE, JOBS, QUEUE, prepare
from turno.jobs.job import JobRef, Priority
from turno.queues.interface import QueueInterface
from turno.testing.wait import wait_until
from turno.wiring.shared import queue_named

QUEUES = [QUEUE, "turno.quarantine"]


@pytest.fixture(autouse=True)
def rabbitmq_backend(example: ExampleInstallation, rabbitmq: Node) -> None:
    example.backend = "rabbitmq"
    example.faulty = True
    example.extra["RABBITMQ_URL"] = rabbitmq.url


@pytest.fixture
def channel(rabbitmq: Node) -> Iterator[BlockingChannel]:
    """A channel to a broker in which nothing of ours is left."""
    with broker_channel(rabbitmq.url) as channel:
        for queue in QUEUES:
            channel.queue_delete(queue)
        channel.exchange_delete(EXCHANGE)
        prepare(rabbitmq.url)
        channel.confirm_delivery()
        yield channel


@pytest.fixture
def queue(example: ExampleInstallation) -> Iterator[QueueInterface]:
    queue = queue_named("rabbitmq", example.settings)
    yield queue
    queue.close()


def ended(example: ExampleInstallation, *jobs: UUID) -> bool:
    return all(example.job(job_id)["finished_at"] is not None for job_id in jobs)


def running(example: ExampleInstallation, *jobs: UUID) -> bool:
    return all(example.job(job_id)["status"] == "running" for job_id in jobs)


def waiting(channel: BlockingChannel, queue: str) -> int:
    return int(channel.queue_declare(queue, passive=True).method.message_count)


def unacknowledged(node: Node, queue: str) -> int:
    lines = node.control("list_queues", "--no-table-headers", "name", "messages_unacknowledged").splitlines()
    return {name: int(number) for name, number in (line.split() for line in lines)}[queue]


def broker_process_of(consumer: subprocess.Popen[str]) -> int:
    children = Path(f"/proc/{consumer.pid}/task/{consumer.pid}/children").read_text().split()
    (broker_process,) = (
        int(pid)
        for pid in children
        if b"turno.capabilities.rabbitmq.program" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )
    return broker_process


def relays(example: ExampleInstallation) -> bool:
    return example.rows("SELECT 1 FROM turno.leases WHERE name = 'relay' AND until > clock_timestamp()") != []


def attempts_of(example: ExampleInstallation, *jobs: UUID) -> set[int]:
    return {example.job(job_id)["attempt"] for job_id in jobs}


def test_a_message_is_acknowledged_while_its_job_still_runs(
    example: ExampleInstallation, channel: BlockingChannel, rabbitmq: Node
) -> None:
    consumer = example.start_consumer(TURNO_MAX_CHILDREN="1")
    example.backend = "pool"  # neither the relay nor a look of the consumer finds it there: it comes by this message
    job_id = example.enqueue({"how": "loop_forever"}, handler=Faulty)
    channel.basic_publish(EXCHANGE, JOBS, Message(job_id, example.one.schema, 0).encode(), mandatory=True)
    assert wait_until(lambda: running(example, job_id), within=20)
    assert wait_until(lambda: unacknowledged(rabbitmq, QUEUE) == 0, within=60)
    channel.queue_purge(
        QUEUE
    )  # a slow start lets maintenance move the job to this backend: then there are two messages
    # An unacknowledged message would be back in the queue once its connection is gone.
    os.kill(broker_process_of(consumer), signal.SIGKILL)
    assert not wait_until(lambda: waiting(channel, QUEUE) > 0, within=1)
    assert example.job(job_id)["status"] == "running"


def test_idle_consumer_receives_message_before_its_look(
    example: ExampleInstallation, channel: BlockingChannel, queue: QueueInterface
) -> None:
    del channel
    example.start_consumer()
    assert wait_until(lambda: relays(example), within=20)
    # A message puts off the next look by two seconds: a job without a message waits for as long.
    waits = sorted(seconds_until_started(example, queue) for _ in range(20))
    assert waits[len(waits) // 4] < SILENT_AFTER / 2


def seconds_until_started(example: ExampleInstallation, queue: QueueInterface) -> float:
    job_id = example.enqueue({"how": "ok"}, handler=Faulty)
    queue.offer(JobRef("suc0001", job_id))
    assert wait_until(lambda: ended(example, job_id), within=20)
    job = example.job(job_id)
    return float((job["started_at"] - job["created_at"]).total_seconds())


def test_long_jobs_in_every_child_delay_no_tenant(example: ExampleInstallation, channel: BlockingChannel) -> None:
    del channel
    long = [example.enqueue({"how": "wait_for_cancel"}, handler=Faulty) for _ in range(2)]
    example.start_consumer(TURNO_MAX_CHILDREN="2", TURNO_HEARTBEAT_SECONDS="0.2")
    assert wait_until(lambda: running(example, *long), within=30)
    third = example.enqueue({"how": "ok"}, handler=Faulty)
    others = [example.enqueue({"how": "ok"}, handler=Faulty, tenant=example.other) for _ in range(3)]
    assert wait_until(
        lambda: all(example.job(job_id, tenant=example.other)["finished_at"] for job_id in others), within=20
    )
    assert running(example, *long)
    assert (example.job(third)["status"], example.job(third)["attempt"]) == ("pending", 0)
    example.cancel(long[0])
    assert wait_until(lambda: ended(example, third), within=20)


def test_delay_and_retry_stay_in_the_row_and_not_in_broker(
    example: ExampleInstallation, channel: BlockingChannel
) -> None:
    later = example.enqueue({"how": "ok"}, handler=Faulty, run_at=datetime.now(UTC) + timedelta(hours=1))
    failing = example.enqueue({"how": "error"}, handler=Faulty)
    example.start_consumer()
    assert wait_until(lambda: ended(example, failing), within=30)
    assert (example.job(failing)["status"], example.job(failing)["attempt"]) == ("failed", 4)
    assert [waiting(channel, name) for name in QUEUES] == [0, 0]
    assert example.job(later)["status"] == "pending"
    example.time_passes()
    assert wait_until(lambda: ended(example, later), within=20)


def test_messages_of_ended_or_unknown_jobs_are_harmless(example: ExampleInstallation, channel: BlockingChannel) -> None:
    done = example.enqueue({"how": "ok"}, handler=Faulty)
    example.start_consumer(TURNO_MAX_CHILDREN="2")
    assert wait_until(lambda: ended(example, done), within=30)
    busy = example.enqueue({"how": "loop_forever"}, handler=Faulty)
    assert wait_until(lambda: running(example, busy), within=30)
    future = example.enqueue({"how": "ok"}, handler=Faulty, run_at=datetime.now(UTC) + timedelta(hours=1))
    schema = example.one.schema
    foreign = [
        Message(future, example.other.schema, 0),
        Message(uuid4(), schema, 0),
        Message(uuid4(), "t_" + "0" * 12, 9),
    ]
    for message in [Message(done, schema, 0), Message(done, schema, 7), Message(busy, schema, 1),
                    Message(future, schema, 0), *foreign] * 20:  # fmt: skip
        channel.basic_publish(EXCHANGE, JOBS, message.encode(), mandatory=True)
    assert wait_until(lambda: waiting(channel, QUEUE) == 0, within=30)
    last = example.enqueue({"how": "ok"}, handler=Faulty)
    assert wait_until(lambda: ended(example, last), within=30)
    assert attempts_of(example, done, busy, last) == {1}
    assert attempts_of(example, future) == {0}
    assert example.job(busy)["status"] == "running"
    assert waiting(channel, "turno.quarantine") == 0


def test_undecodable_message_is_quarantined_with_alert(example: ExampleInstallation, channel: BlockingChannel) -> None:
    # A consumer of the test before that is on its way out would take it, and have the alerts in its own log.
    assert wait_until(lambda: channel.queue_declare(QUEUE, passive=True).method.consumer_count == 0, within=20)
    junk = [b"", b"\xff\xfe", b"{}", b"[" * 100_000, Message(uuid4(), example.one.schema, 0).encode() + b"}"]
    for body in junk:
        channel.basic_publish(EXCHANGE, JOBS, body, mandatory=True)
    consumer = example.start_consumer()
    assert wait_until(lambda: waiting(channel, "turno.quarantine") == len(junk), within=30)
    job_id = example.enqueue({"how": "ok"}, handler=Faulty, priority=Priority.URGENT)
    assert wait_until(lambda: ended(example, job_id), within=30)
    consumer.send_signal(signal.SIGTERM)
    log, _ = consumer.communicate(timeout=40)
    assert log.count('"alert": "quarantine"') == len(junk), log


def test_stopped_receiver_consumes_nothing_after_a_break(channel: BlockingChannel, rabbitmq: Node) -> None:
    loop, reports = IOLoop(), SimpleQueue[str]()
    receiver = Receiver(loop, rabbitmq.url, hand_over=lambda *_: None, report=reports.put)
    receiver.open()
    thread = Thread(target=loop.start)
    thread.start()

    def in_loop(call: Callable[[], object]) -> None:
        done = Event()
        loop.add_callback_threadsafe(call)
        loop.add_callback_threadsafe(done.set)
        assert done.wait(20)

    def consumers() -> int:
        return int(channel.queue_declare(QUEUE, passive=True).method.consumer_count)

    try:
        assert reports.get(timeout=20) == "here"
        in_loop(lambda: receiver.grant(1))
        assert wait_until(lambda: consumers() == 1, within=20)
        in_loop(receiver.stop)
        assert wait_until(lambda: consumers() == 0, within=20)
        in_loop(receiver._throw_away)
        assert [reports.get(timeout=20) for _ in range(2)] == ["away", "here"]
        assert not wait_until(lambda: consumers() > 0, within=1)
    finally:
        in_loop(receiver._throw_away)
        assert reports.get(timeout=20) == "away"
        in_loop(loop.stop)
        thread.join(20)
        loop.close()


def test_mismatched_queue_stops_the_start_with_a_remedy(example: ExampleInstallation, channel: BlockingChannel) -> None:
    channel.queue_delete(QUEUE)
    channel.queue_declare(QUEUE, durable=True)
    log, _ = example.start_consumer().communicate(timeout=40)
    assert "the broker's queue turno.jobs is not as Turno makes it" in log
    assert "delete it and start again" in log
    assert "Traceback" not in log
    assert example.rows("SELECT 1 FROM turno.workers") == []


def test_relay_killed_before_marking_republishes_one_run(
    example: ExampleInstallation, channel: BlockingChannel
) -> None:
    busy = example.enqueue({"how": "wait_for_cancel"}, handler=Faulty)
    consumer = example.start_consumer(TURNO_MAX_CHILDREN="1", TURNO_CRASH_AT="published")
    assert wait_until(lambda: running(example, busy), within=30)
    # The only child is busy, so that published messages stay where they can be counted.
    jobs = [example.enqueue({"how": "ok"}, handler=Faulty) for _ in range(3)]
    assert wait_until(lambda: waiting(channel, QUEUE) > len(jobs), within=40)
    assert example.cancel(busy) == "requested"
    assert wait_until(lambda: ended(example, *jobs), within=30)
    consumer.send_signal(signal.SIGTERM)
    log, _ = consumer.communicate(timeout=40)
    assert "the broker process died" in log
    assert attempts_of(example, *jobs) == {1}
    assert {example.job(job_id)["crashes"] for job_id in jobs} == {0}


def test_window_bounds_a_tenant_and_next_tenant_gets_a_turn(
    example: ExampleInstallation, channel: BlockingChannel
) -> None:
    busy = example.enqueue({"how": "loop_forever"}, handler=Faulty)
    example.start_consumer(
        TURNO_MAX_CHILDREN="1", TURNO_RESERVE_CHILDREN="0", TURNO_LIMITS="broker_messages_per_tenant=4"
    )
    assert wait_until(lambda: running(example, busy), within=20)
    for _ in range(30):
        example.enqueue({"how": "ok"}, handler=Faulty)
    example.enqueue({"how": "ok"}, handler=Faulty, tenant=example.other)
    example.enqueue({"how": "ok"}, handler=Faulty, priority=Priority.URGENT)

    # Counted by ticket: on a crowded machine the relay repeats a message whose record comes late.
    def published() -> dict[int, int]:
        tickets = (
            "SELECT tenant_id, count(*) AS n FROM turno.tickets WHERE state = 'ready' AND published_at IS NOT NULL"
        )
        return {row["tenant_id"]: row["n"] for row in example.rows(f"{tickets} GROUP BY tenant_id")}

    assert wait_until(lambda: published() == {example.one.id: 4, example.other.id: 1}, within=20)
    assert wait_until(lambda: waiting(channel, QUEUE) >= 5, within=20)
    assert not wait_until(lambda: published().get(example.one.id, 0) > 4, within=1)


def test_a_busy_consumer_keeps_nothing_from_an_idle_one(example: ExampleInstallation, channel: BlockingChannel) -> None:
    del channel
    busy = [example.enqueue({"how": "loop_forever"}, handler=Faulty) for _ in range(2)]
    example.start_consumer(TURNO_MAX_CHILDREN="2")
    assert wait_until(lambda: running(example, *busy), within=30)
    example.start_consumer(TURNO_MAX_CHILDREN="2")
    assert wait_until(lambda: len(example.rows("SELECT 1 FROM turno.workers")) == 2, within=30)
    jobs = [example.enqueue({"how": "ok"}, handler=Faulty) for _ in range(20)]
    assert wait_until(lambda: ended(example, *jobs), within=20)
    assert attempts_of(example, *jobs) == {1}


def test_busy_consumer_returns_messages_to_the_queue(example: ExampleInstallation, channel: BlockingChannel) -> None:
    channel.basic_publish(EXCHANGE, JOBS, Message(uuid4(), example.one.schema, 0).encode(), mandatory=True)
    example.start_consumer(TURNO_MAX_CHILDREN="2")
    assert wait_until(lambda: waiting(channel, QUEUE) == 0, within=30)  # so it consumes
    busy = [example.enqueue({"how": "loop_forever"}, handler=Faulty) for _ in range(2)]
    assert wait_until(lambda: running(example, *busy), within=30)
    bodies = {Message(uuid4(), example.one.schema, 0).encode() for _ in range(3)}
    for body in bodies:
        channel.basic_publish(EXCHANGE, JOBS, body, mandatory=True)
    got: set[bytes] = set()

    def all_came() -> bool:
        _, _, body = channel.basic_get(QUEUE, auto_ack=True)
        got.update([body] if body else [])
        return got >= bodies

    assert wait_until(all_came, within=8)


def test_sigterm_drains_and_returns_received_messages(example: ExampleInstallation, channel: BlockingChannel) -> None:
    jobs = [example.enqueue({"how": "wait_for_checkpoint_stop"}, handler=Faulty) for _ in range(3)]
    consumer = example.start_consumer(TURNO_MAX_CHILDREN="2")
    assert wait_until(lambda: len(example.rows("SELECT 1 FROM background_job_checkpoints")) == 2, within=30)
    assert wait_until(lambda: waiting(channel, QUEUE) >= 1, within=30)  # or the relay may not have published it yet
    consumer.send_signal(signal.SIGTERM)
    log, _ = consumer.communicate(timeout=40)
    assert consumer.returncode == 0, log
    assert {example.job(job_id)["status"] for job_id in jobs} == {"pending"}, log
    assert {(example.job(job_id)["errors"], example.job(job_id)["crashes"]) for job_id in jobs} == {(0, 0)}
    assert example.rows("SELECT 1 FROM turno.workers") == []
    assert wait_until(lambda: not relays(example), within=10)
    assert wait_until(lambda: waiting(channel, QUEUE) >= 1, within=10)
    example.start_consumer()
    assert wait_until(lambda: ended(example, *jobs[:1]), within=30)


def test_only_named_queues_are_served(example: ExampleInstallation, channel: BlockingChannel) -> None:
    cold = example.start_consumer("--queues", "nothing-of-the-kind")
    assert wait_until(lambda: example.rows("SELECT 1 FROM turno.workers") != [], within=20)
    job_id = example.enqueue({"how": "ok"}, handler=Faulty)
    channel.basic_publish(EXCHANGE, JOBS, Message(job_id, example.one.schema, 0).encode())
    hot = example.start_consumer("--queues", "hot")
    assert wait_until(lambda: ended(example, job_id), within=30)
    assert waiting(channel, QUEUE) == 1
    assert (cold.poll(), hot.poll()) == (None, None)


def test_unserved_type_hides_no_job_of_its_tenant(example: ExampleInstallation, channel: BlockingChannel) -> None:
    """Eight of them fill the window of the tenant; another tenant, with a window, keeps the consumer hearing."""
    unknown = [example.enqueue({"how": "ok"}, handler=Faulty) for _ in range(8)]
    example.rows("UPDATE turno.tickets SET type = 'monthly_report'")
    for _ in range(300):
        example.enqueue({"how": "ok"}, handler=Faulty, tenant=example.other)
    known = [example.enqueue({"how": "ok"}, handler=Faulty) for _ in range(3)]
    example.start_consumer(TURNO_MAX_CHILDREN="1")
    assert wait_until(lambda: ended(example, *known), within=30)
    assert example.rows("SELECT 1 FROM turno.tickets WHERE tenant_id = %s", example.other.id) != []
    assert waiting(channel, QUEUE) <= 16
    assert not ended(example, *unknown[:1])


def test_urgent_job_overtakes_messages_of_its_tenant(example: ExampleInstallation, channel: BlockingChannel) -> None:
    busy = example.enqueue({"how": "wait_for_cancel"}, handler=Faulty)
    example.start_consumer(TURNO_MAX_CHILDREN="1")
    assert wait_until(lambda: running(example, busy), within=20)
    bulk = [example.enqueue({"how": "ok"}, handler=Faulty, priority=Priority.LOW) for _ in range(20)]
    assert wait_until(lambda: waiting(channel, QUEUE) == 8, within=20)
    urgent = [example.enqueue({"how": "ok"}, handler=Faulty, priority=Priority.URGENT) for _ in range(2)]
    example.cancel(busy)
    assert wait_until(lambda: ended(example, *urgent, *bulk), within=30)
    order = example.rows("SELECT id FROM background_jobs WHERE id <> %s ORDER BY started_at", busy)
    # One turn in eight goes to its original tenant.
    assert {row["id"] for row in order[:8]} >= set(urgent)
