"""A broker that dies, blocks, cuts, forgets, or does not answer: an accepted job runs, once, and soon after."""

import signal
from collections.abc import Iterator
from uuid import UUID

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from cli.demo.web import DemoWeb
from cli.servers.free_port import free_port
from cli.servers.private_rabbitmq import Node
from tests.broker import broker_channel
from tests.faults.tcp_proxy import bad_link
from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import Faulty
from tests.repeating import Repeating
from turno.capabilities.rabbitmq.topology import QUEUE
from turno.jobs.job import JobRef
from turno.testing.wait import wait_until
from turno.wiring.shared import queue_named

pytestmark = pytest.mark.rabbitmq


@pytest.fixture(scope="module")
def module_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(folder=tmp_path_factory.mktemp("broker")) as node:
        yield node


@pytest.fixture
def node(module_node: Node, example: ExampleInstallation) -> Node:
    """A broker that a test may break."""
    if not module_node.pids:
        module_node.start()
    example.backend = "rabbitmq"
    example.faulty = True
    example.extra["RABBITMQ_URL"] = module_node.url
    example.extra["TURNO_LOG_LEVEL"] = "ERROR"  # no test reads a line for each job
    return module_node


def ended(example: ExampleInstallation) -> bool:
    return example.rows("SELECT 1 FROM background_jobs WHERE finished_at IS NULL") == []


def once_each(example: ExampleInstallation, jobs: list[UUID]) -> bool:
    rows = example.rows("SELECT id, status, attempt, crashes FROM background_jobs")
    return {row["id"] for row in rows} == set(jobs) and {
        (row["status"], row["attempt"], row["crashes"]) for row in rows
    } == {("completed", 1, 0)}


def relays(example: ExampleInstallation) -> bool:
    return example.rows("SELECT 1 FROM turno.leases WHERE name = 'relay' AND until > clock_timestamp()") != []


class Load(Repeating):
    """Submits jobs one after another during the fault, and hints at each."""

    def __init__(self, example: ExampleInstallation) -> None:
        super().__init__()
        self.jobs: list[UUID] = []
        self._example = example
        self._queue = queue_named("rabbitmq", example.settings)

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._queue.close()

    def once(self) -> None:
        self.jobs.append(self._example.enqueue({"how": "ok"}, handler=Faulty))
        self._queue.offer(JobRef("suc0001", self.jobs[-1]))

    def grows(self, by: int) -> bool:
        target = len(self.jobs) + by
        return wait_until(lambda: len(self.jobs) >= target, within=30)


@pytest.fixture
def channel(node: Node) -> Iterator[BlockingChannel]:
    with broker_channel(node.url) as channel:
        yield channel


@pytest.mark.timeout(240)
def test_killed_broker_under_load_loses_and_doubles_nothing(example: ExampleInstallation, node: Node) -> None:
    example.start_consumer()
    with Load(example) as load:
        for _ in range(2):
            assert wait_until(lambda: relays(example), within=30)
            assert load.grows(50)
            node.kill()
            assert load.grows(50)
            # Without any broker, consumers look for themselves.
            assert all_finish(example, set(load.jobs))
            node.start()
        assert load.grows(50)
    assert wait_until(lambda: ended(example), within=60)
    assert once_each(example, load.jobs)


def all_finish(example: ExampleInstallation, jobs: set[UUID]) -> bool:
    return wait_until(lambda: not jobs & unfinished(example), within=30)


def unfinished(example: ExampleInstallation) -> set[UUID]:
    return {row["id"] for row in example.rows("SELECT id FROM background_jobs WHERE finished_at IS NULL")}


def test_cut_links_and_killed_consumers_lose_nothing(example: ExampleInstallation, node: Node) -> None:
    consumers = [example.start_consumer(TURNO_HEARTBEAT_SECONDS="0.2", TURNO_DEAD_AFTER_SECONDS="1") for _ in range(2)]
    with Load(example) as load:
        assert load.grows(30)
        node.control("close_all_connections", "cut by a test")
        assert load.grows(30)
        consumers[0].kill()
        assert load.grows(30)
    jobs = load.jobs
    assert wait_until(lambda: ended(example), within=60)
    rows = example.rows("SELECT id, status FROM background_jobs")
    assert {row["id"] for row in rows} == set(jobs)
    assert {row["status"] for row in rows} == {"completed"}
    assert example.rows(
        "SELECT job_id FROM background_job_attempts WHERE outcome = 'completed' GROUP BY job_id HAVING count(*) > 1"
    ) == []  # fmt: skip


def test_a_memory_alarm_stops_no_job(example: ExampleInstallation, node: Node) -> None:
    example.start_consumer()
    assert wait_until(lambda: relays(example), within=30)
    node.control("set_vm_memory_high_watermark", "0.00001")
    try:
        with Load(example) as load:
            assert load.grows(30)
        assert wait_until(lambda: ended(example), within=20)
    finally:
        node.control("set_vm_memory_high_watermark", "0.4")
    assert once_each(example, load.jobs)


def test_deleted_queue_is_made_again_and_its_jobs_run(
    example: ExampleInstallation, node: Node, channel: BlockingChannel
) -> None:
    del node
    example.start_consumer(TURNO_HEARTBEAT_SECONDS="0.5", TURNO_DEAD_AFTER_SECONDS="2")
    assert wait_until(lambda: relays(example), within=30)
    with Load(example) as load:
        assert load.grows(30)
        channel.queue_delete(QUEUE)
        # By the next publisher: without a publisher, consumers look for themselves.
        assert wait_until(lambda: exists(channel, QUEUE), within=60)
        assert load.grows(30)
    assert wait_until(lambda: ended(example), within=60)
    assert once_each(example, load.jobs)


def exists(channel: BlockingChannel, queue: str) -> bool:
    other = channel.connection.channel()
    try:
        other.queue_declare(queue, passive=True)
    except pika.exceptions.ChannelClosedByBroker:
        return False
    return True


def test_missing_confirmations_time_out_and_jobs_run_once(example: ExampleInstallation, node: Node) -> None:
    with bad_link(node.port) as (port, proxy):
        example.extra["RABBITMQ_URL"] = node.url.replace(f":{node.port}/", f":{port}/")
        example.start_consumer()
        assert wait_until(lambda: relays(example), within=30)
        with Load(example) as load:
            assert load.grows(20)
            proxy.send_signal(signal.SIGSTOP)
            assert load.grows(20)
        try:
            assert wait_until(lambda: ended(example), within=40)
        finally:
            proxy.send_signal(signal.SIGCONT)
        assert once_each(example, load.jobs)


def test_without_the_quarantine_junk_is_dropped_and_nothing_else(
    example: ExampleInstallation, node: Node, channel: BlockingChannel
) -> None:
    del node
    example.start_consumer()
    assert wait_until(lambda: relays(example), within=30)
    channel.queue_delete("turno.quarantine")
    for _ in range(10):
        channel.basic_publish("turno", "normal", b"junk")
    with Load(example) as load:
        assert load.grows(20)
    assert wait_until(lambda: ended(example), within=40)
    assert once_each(example, load.jobs)


def test_post_answers_while_the_broker_is_down(example: ExampleInstallation, node: Node) -> None:
    node.stop()
    port = free_port()
    example.faulty = False
    web = DemoWeb(port=port, environment=example.environment | {"TURNO_WEB_BIND": f"127.0.0.1:{port}"},
                  log=example.folder / "web.log")  # fmt: skip
    web.start()
    try:
        for number in range(10):
            orders = {"order_ids": [example.order_ids()[number]]}
            example.client(web, user=f"ana-{number}").submit("batch_invoicing", orders)
        example.start_consumer()
        assert wait_until(lambda: ended(example), within=40)
    finally:
        web.stop()
    assert example.rows("SELECT DISTINCT backend FROM turno.workers") == [{"backend": "rabbitmq"}]
