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
from tests.misbehaving_handlers import Odd
from turno.capabilities.rabbitmq.message import Message
from turno.capabilities.rabbitmq.receiver import Receiver
from turno.capabilities.rabbitmq.source import SILENT_AFTER
from turno.capabilities.rabbitmq.topology import EXCHANGE, JOBS, QUEUE, prepare
from turno.jobs.job import JobRef, Priority
from turno.queues.interface import QueueInterface
from turno.servers.wait import wait_until
from turno.wiring.shared import queue_named

QUEUES = [QUEUE, "turno.quarantine"]


@pytest.fixture(autouse=True)
def rabbitmq_backend(world: ExampleInstallation, rabbitmq: Node) -> None:
    world.backend = "rabbitmq"
    world.odd = True
    world.extra["RABBITMQ_URL"] = rabbitmq.url


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
def queue(world: ExampleInstallation) -> Iterator[QueueInterface]:
    queue = queue_named("rabbitmq", world.settings)
    yield queue
    queue.close()


def ended(world: ExampleInstallation, *jobs: UUID) -> bool:
    return all(world.job(job_id)["finished_at"] is not None for job_id in jobs)


def running(world: ExampleInstallation, *jobs: UUID) -> bool:
    return all(world.job(job_id)["status"] == "running" for job_id in jobs)


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


def relays(world: ExampleInstallation) -> bool:
    return world.rows("SELECT 1 FROM turno.leases WHERE name = 'relay' AND until > clock_timestamp()") != []


def attempts_of(world: ExampleInstallation, *jobs: UUID) -> set[int]:
    return {world.job(job_id)["attempt"] for job_id in jobs}


def test_a_message_is_acknowledged_while_its_job_still_runs(
    world: ExampleInstallation, channel: BlockingChannel, rabbitmq: Node
) -> None:
    consumer = world.start_consumer(TURNO_MAX_CHILDREN="1")
    world.backend = "pool"  # neither the relay nor a look of the consumer finds it there: it comes by this message
    job_id = world.enqueue({"how": "loop_forever"}, handler=Odd)
    channel.basic_publish(EXCHANGE, JOBS, Message(job_id, world.one.schema, 0).encode(), mandatory=True)
    assert wait_until(lambda: running(world, job_id), within=20)
    assert wait_until(lambda: unacknowledged(rabbitmq, QUEUE) == 0, within=60)
    channel.queue_purge(
        QUEUE
    )  # a slow start lets maintenance move the job to this backend: then there are two messages
    # An unacknowledged message would be back in the queue once its connection is gone.
    os.kill(broker_process_of(consumer), signal.SIGKILL)
    assert not wait_until(lambda: waiting(channel, QUEUE) > 0, within=1)
    assert world.job(job_id)["status"] == "running"


def test_idle_consumer_receives_message_before_its_look(
    world: ExampleInstallation, channel: BlockingChannel, queue: QueueInterface
) -> None:
    del channel
    world.start_consumer()
    assert wait_until(lambda: relays(world), within=20)
    # A message puts off the next look by two seconds: a job without a message waits for as long.
    waits = sorted(seconds_until_started(world, queue) for _ in range(20))
    assert waits[len(waits) // 4] < SILENT_AFTER / 2


def seconds_until_started(world: ExampleInstallation, queue: QueueInterface) -> float:
    job_id = world.enqueue({"how": "ok"}, handler=Odd)
    queue.offer(JobRef("suc0001", job_id))
    assert wait_until(lambda: ended(world, job_id), within=20)
    job = world.job(job_id)
    return float((job["started_at"] - job["created_at"]).total_seconds())


def test_long_jobs_in_every_child_delay_no_tenant(world: ExampleInstallation, channel: BlockingChannel) -> None:
    del channel
    long = [world.enqueue({"how": "wait_for_cancel"}, handler=Odd) for _ in range(2)]
    world.start_consumer(TURNO_MAX_CHILDREN="2", TURNO_HEARTBEAT_SECONDS="0.2")
    assert wait_until(lambda: running(world, *long), within=30)
    third = world.enqueue({"how": "ok"}, handler=Odd)
    others = [world.enqueue({"how": "ok"}, handler=Odd, tenant=world.other) for _ in range(3)]
    assert wait_until(lambda: all(world.job(job_id, tenant=world.other)["finished_at"] for job_id in others), within=20)
    assert running(world, *long)
    assert (world.job(third)["status"], world.job(third)["attempt"]) == ("pending", 0)
    world.cancel(long[0])
    assert wait_until(lambda: ended(world, third), within=20)


def test_delay_and_retry_stay_in_the_row_and_not_in_broker(
    world: ExampleInstallation, channel: BlockingChannel
) -> None:
    later = world.enqueue({"how": "ok"}, handler=Odd, run_at=datetime.now(UTC) + timedelta(hours=1))
    failing = world.enqueue({"how": "error"}, handler=Odd)
    world.start_consumer()
    assert wait_until(lambda: ended(world, failing), within=30)
    assert (world.job(failing)["status"], world.job(failing)["attempt"]) == ("failed", 4)
    assert [waiting(channel, name) for name in QUEUES] == [0, 0]
    assert world.job(later)["status"] == "pending"
    world.time_passes()
    assert wait_until(lambda: ended(world, later), within=20)


def test_messages_of_ended_or_unknown_jobs_are_harmless(world: ExampleInstallation, channel: BlockingChannel) -> None:
    done = world.enqueue({"how": "ok"}, handler=Odd)
    world.start_consumer(TURNO_MAX_CHILDREN="2")
    assert wait_until(lambda: ended(world, done), within=30)
    held = world.enqueue({"how": "loop_forever"}, handler=Odd)
    assert wait_until(lambda: running(world, held), within=30)
    future = world.enqueue({"how": "ok"}, handler=Odd, run_at=datetime.now(UTC) + timedelta(hours=1))
    schema = world.one.schema
    foreign = [
        Message(future, world.other.schema, 0),
        Message(uuid4(), schema, 0),
        Message(uuid4(), "t_" + "0" * 12, 9),
    ]
    for message in [Message(done, schema, 0), Message(done, schema, 7), Message(held, schema, 1),
                    Message(future, schema, 0), *foreign] * 20:  # fmt: skip
        channel.basic_publish(EXCHANGE, JOBS, message.encode(), mandatory=True)
    assert wait_until(lambda: waiting(channel, QUEUE) == 0, within=30)
    last = world.enqueue({"how": "ok"}, handler=Odd)
    assert wait_until(lambda: ended(world, last), within=30)
    assert attempts_of(world, done, held, last) == {1}
    assert attempts_of(world, future) == {0}
    assert world.job(held)["status"] == "running"
    assert waiting(channel, "turno.quarantine") == 0


def test_undecodable_message_is_quarantined_with_alert(world: ExampleInstallation, channel: BlockingChannel) -> None:
    # A consumer of the test before that is on its way out would take it, and have the alerts in its own log.
    assert wait_until(lambda: channel.queue_declare(QUEUE, passive=True).method.consumer_count == 0, within=20)
    junk = [b"", b"\xff\xfe", b"{}", b"[" * 100_000, Message(uuid4(), world.one.schema, 0).encode() + b"}"]
    for body in junk:
        channel.basic_publish(EXCHANGE, JOBS, body, mandatory=True)
    consumer = world.start_consumer()
    assert wait_until(lambda: waiting(channel, "turno.quarantine") == len(junk), within=30)
    job_id = world.enqueue({"how": "ok"}, handler=Odd, priority=Priority.URGENT)
    assert wait_until(lambda: ended(world, job_id), within=30)
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


def test_mismatched_queue_stops_the_start_with_a_remedy(world: ExampleInstallation, channel: BlockingChannel) -> None:
    channel.queue_delete(QUEUE)
    channel.queue_declare(QUEUE, durable=True)
    log, _ = world.start_consumer().communicate(timeout=40)
    assert "the broker's queue turno.jobs is not as Turno makes it" in log
    assert "delete it and start again" in log
    assert "Traceback" not in log
    assert world.rows("SELECT 1 FROM turno.workers") == []


def test_relay_killed_before_marking_republishes_one_run(world: ExampleInstallation, channel: BlockingChannel) -> None:
    held = world.enqueue({"how": "wait_for_cancel"}, handler=Odd)
    consumer = world.start_consumer(TURNO_MAX_CHILDREN="1", TURNO_CRASH_AT="published")
    assert wait_until(lambda: running(world, held), within=30)
    # The only child is busy, so that published messages stay where they can be counted.
    jobs = [world.enqueue({"how": "ok"}, handler=Odd) for _ in range(3)]
    assert wait_until(lambda: waiting(channel, QUEUE) > len(jobs), within=40)
    assert world.cancel(held) == "requested"
    assert wait_until(lambda: ended(world, *jobs), within=30)
    consumer.send_signal(signal.SIGTERM)
    log, _ = consumer.communicate(timeout=40)
    assert "the broker process died" in log
    assert attempts_of(world, *jobs) == {1}
    assert {world.job(job_id)["crashes"] for job_id in jobs} == {0}


def test_window_bounds_a_tenant_and_next_tenant_gets_a_turn(
    world: ExampleInstallation, channel: BlockingChannel
) -> None:
    held = world.enqueue({"how": "loop_forever"}, handler=Odd)
    world.start_consumer(
        TURNO_MAX_CHILDREN="1", TURNO_RESERVE_CHILDREN="0", TURNO_LIMITS="broker_messages_per_tenant=4"
    )
    assert wait_until(lambda: running(world, held), within=20)
    for _ in range(30):
        world.enqueue({"how": "ok"}, handler=Odd)
    world.enqueue({"how": "ok"}, handler=Odd, tenant=world.other)
    world.enqueue({"how": "ok"}, handler=Odd, priority=Priority.URGENT)
    assert wait_until(lambda: waiting(channel, QUEUE) == 5, within=20)
    assert not wait_until(lambda: waiting(channel, QUEUE) > 5, within=1)


def test_a_busy_consumer_keeps_nothing_from_an_idle_one(world: ExampleInstallation, channel: BlockingChannel) -> None:
    del channel
    busy = [world.enqueue({"how": "loop_forever"}, handler=Odd) for _ in range(2)]
    world.start_consumer(TURNO_MAX_CHILDREN="2")
    assert wait_until(lambda: running(world, *busy), within=30)
    world.start_consumer(TURNO_MAX_CHILDREN="2")
    assert wait_until(lambda: len(world.rows("SELECT 1 FROM turno.workers")) == 2, within=30)
    jobs = [world.enqueue({"how": "ok"}, handler=Odd) for _ in range(20)]
    assert wait_until(lambda: ended(world, *jobs), within=20)
    assert attempts_of(world, *jobs) == {1}


def test_busy_consumer_returns_messages_to_the_queue(world: ExampleInstallation, channel: BlockingChannel) -> None:
    channel.basic_publish(EXCHANGE, JOBS, Message(uuid4(), world.one.schema, 0).encode(), mandatory=True)
    world.start_consumer(TURNO_MAX_CHILDREN="2")
    assert wait_until(lambda: waiting(channel, QUEUE) == 0, within=30)  # so it consumes
    busy = [world.enqueue({"how": "loop_forever"}, handler=Odd) for _ in range(2)]
    assert wait_until(lambda: running(world, *busy), within=30)
    bodies = {Message(uuid4(), world.one.schema, 0).encode() for _ in range(3)}
    for body in bodies:
        channel.basic_publish(EXCHANGE, JOBS, body, mandatory=True)
    got: set[bytes] = set()

    def all_came() -> bool:
        _, _, body = channel.basic_get(QUEUE, auto_ack=True)
        got.update([body] if body else [])
        return got >= bodies

    assert wait_until(all_came, within=8)


def test_sigterm_drains_and_returns_received_messages(world: ExampleInstallation, channel: BlockingChannel) -> None:
    jobs = [world.enqueue({"how": "wait_for_checkpoint_stop"}, handler=Odd) for _ in range(3)]
    consumer = world.start_consumer(TURNO_MAX_CHILDREN="2")
    assert wait_until(lambda: len(world.rows("SELECT 1 FROM background_job_checkpoints")) == 2, within=30)
    assert wait_until(lambda: waiting(channel, QUEUE) >= 1, within=30)  # or the relay may not have published it yet
    consumer.send_signal(signal.SIGTERM)
    log, _ = consumer.communicate(timeout=40)
    assert consumer.returncode == 0, log
    assert {world.job(job_id)["status"] for job_id in jobs} == {"pending"}, log
    assert {(world.job(job_id)["errors"], world.job(job_id)["crashes"]) for job_id in jobs} == {(0, 0)}
    assert world.rows("SELECT 1 FROM turno.workers") == []
    assert wait_until(lambda: not relays(world), within=10)
    assert wait_until(lambda: waiting(channel, QUEUE) >= 1, within=10)
    world.start_consumer()
    assert wait_until(lambda: ended(world, *jobs[:1]), within=30)


def test_only_named_queues_are_served(world: ExampleInstallation, channel: BlockingChannel) -> None:
    cold = world.start_consumer("--queues", "nothing-of-the-kind")
    assert wait_until(lambda: world.rows("SELECT 1 FROM turno.workers") != [], within=20)
    job_id = world.enqueue({"how": "ok"}, handler=Odd)
    channel.basic_publish(EXCHANGE, JOBS, Message(job_id, world.one.schema, 0).encode())
    hot = world.start_consumer("--queues", "hot")
    assert wait_until(lambda: ended(world, job_id), within=30)
    assert waiting(channel, QUEUE) == 1
    assert (cold.poll(), hot.poll()) == (None, None)


def test_unserved_type_hides_no_job_of_its_tenant(world: ExampleInstallation, channel: BlockingChannel) -> None:
    """Eight of them fill the window; another tenant keeps the consumer hearing."""
    unknown = [world.enqueue({"how": "ok"}, handler=Odd) for _ in range(8)]
    world.rows("UPDATE turno.tickets SET type = 'monthly_report'")
    for _ in range(300):
        world.enqueue({"how": "ok"}, handler=Odd, tenant=world.other)
    known = [world.enqueue({"how": "ok"}, handler=Odd) for _ in range(3)]
    world.start_consumer(TURNO_MAX_CHILDREN="1")
    assert wait_until(lambda: ended(world, *known), within=30)
    assert world.rows("SELECT 1 FROM turno.tickets WHERE tenant_id = %s", world.other.id) != []
    assert waiting(channel, QUEUE) <= 8
    assert not ended(world, *unknown[:1])


def test_urgent_job_overtakes_messages_of_its_tenant(world: ExampleInstallation, channel: BlockingChannel) -> None:
    held = world.enqueue({"how": "wait_for_cancel"}, handler=Odd)
    world.start_consumer(TURNO_MAX_CHILDREN="1")
    assert wait_until(lambda: running(world, held), within=20)
    bulk = [world.enqueue({"how": "ok"}, handler=Odd, priority=Priority.LOW) for _ in range(20)]
    assert wait_until(lambda: waiting(channel, QUEUE) == 8, within=20)
    urgent = [world.enqueue({"how": "ok"}, handler=Odd, priority=Priority.URGENT) for _ in range(2)]
    world.cancel(held)
    assert wait_until(lambda: ended(world, *urgent, *bulk), within=30)
    order = world.rows("SELECT id FROM background_jobs WHERE id <> %s ORDER BY started_at", held)
    # One turn in eight goes to its original tenant.
    assert {row["id"] for row in order[:8]} >= set(urgent)
