"""Three brokers and two workers on hosts of their own: nodes die, are cut off, run full, are all away; workers too."""

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest
from pika.exceptions import ChannelClosedByBroker

from cli.demo.web import DemoWeb
from cli.servers.free_port import free_port
from cli.servers.private_rabbitmq import Node
from tests.broker import broker_channel
from tests.capabilities.rabbitmq.cluster import BrokerCluster
from tests.faults.hosts import Host, Lan
from tests.faults.own_server import own_example
from tests.faults.posting import Posting
from tests.faults.tcp_proxy import bad_link
from tests.installation import ROOT, ExampleInstallation
from tests.misbehaving_handlers import Faulty
from turno.capabilities.rabbitmq.topology import QUEUE, prepare
from turno.testing import processes
from turno.testing.wait import wait_until

pytestmark = [pytest.mark.root, pytest.mark.rabbitmq, pytest.mark.timeout(600)]

HASTE = {
    "TURNO_HEARTBEAT_SECONDS": "0.5",
    "TURNO_DEAD_AFTER_SECONDS": "3",
    "TURNO_LIMITS": "pending_jobs_per_user=100000,commands_per_minute_per_user=0",
    "TURNO_MIN_CHILDREN": "2",
    "TURNO_MAX_CHILDREN": "2",
    "TURNO_LOG_LEVEL": "ERROR",
}


@dataclass
class Scene:
    """Everything there is: the hosts, the broker on three of them, a database and a web that all can reach."""

    lan: Lan
    cluster: BrokerCluster
    example: ExampleInstallation
    web: DemoWeb
    database_url: str  # as the hosts reach it

    @property
    def workers(self) -> list[Host]:
        return self.lan.hosts[3:]

    def start_consumer(self, host: Host) -> Popen[str]:
        command = [sys.executable, str(ROOT / "cli" / "rabbitmq_consumer.py")]
        worker = host.start(command, self.example.environment | {"DATABASE_URL": self.database_url})
        self.example.workers.append(worker)
        return worker

    def leader(self) -> int:
        return self.cluster.index_of_leader(QUEUE)

    def hears_again(self) -> bool:
        """Return whether the broker confirms new messages, so that a majority of it works."""
        (now,) = self.example.rows("SELECT clock_timestamp() AS moment")
        confirmed = "SELECT 1 FROM turno.tickets WHERE published_at > %s"
        return wait_until(lambda: self.example.rows(confirmed, now["moment"]) != [], within=90)

    def answers_again(self, node: Node) -> bool:
        """Say whether a node that paused is in the cluster again.

        A paused node starts its broker again when it sees its peers. RabbitMQ 3.10 tries that once: if the start fails,
        for example because the peers are slow to answer, an operator has to restart the node.
        """
        if not wait_until(node.answers, within=60):
            node.kill()
            node.start()
        return node.answers()


@pytest.fixture(scope="module")
def module_scene(tmp_path_factory: pytest.TempPathFactory, postgres_template: Path) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("cluster")
    with (
        Lan("broker1", "broker2", "broker3", "worker1", "worker2") as lan,
        BrokerCluster(folder, lan.hosts[:3]) as cluster,
        own_example(folder, postgres_template, tcp=True) as (server, example),
        bad_link(server.port, address=lan.our_address) as (port, _),
    ):
        prepare(cluster.url)
        web_port = free_port()
        example.backend = "rabbitmq"
        example.extra |= HASTE | {"RABBITMQ_URL": cluster.url, "TURNO_WEB_BIND": f"127.0.0.1:{web_port}"}
        web = DemoWeb(port=web_port, environment=example.environment, log=folder / "web.log")
        web.start()
        far = example.url.replace(f"127.0.0.1:{server.port}", f"{lan.our_address}:{port}")
        yield Scene(lan, cluster, example, web, far)
        web.stop()


@pytest.fixture
def scene(module_scene: Scene) -> Scene:
    """All of it in order, nothing left of the test before, and a consumer on each of the two hosts."""
    module_scene.example.reset()
    for host in module_scene.workers:
        module_scene.start_consumer(host)
    assert wait_until(lambda: len(module_scene.example.rows("SELECT 1 FROM turno.workers")) == 2, within=90)
    return module_scene


def all_done(example: ExampleInstallation, jobs: list[Any], *, within: float = 60) -> bool:
    """Say whether each of them, and nothing else, ends well, in one attempt."""
    unfinished = "SELECT 1 FROM background_jobs WHERE finished_at IS NULL"
    assert wait_until(lambda: example.rows(unfinished) == [], within=within)
    rows = example.rows("SELECT id, status, attempt, crashes FROM background_jobs")
    ends = {(row["status"], row["attempt"], row["crashes"]) for row in rows}
    return {row["id"] for row in rows} == set(jobs) and ends == {("completed", 1, 0)}


def test_killed_leader_leaves_two_working_nodes(scene: Scene) -> None:
    with Posting(scene.example, scene.web) as posting:
        assert scene.hears_again()
        killed = scene.cluster.nodes[scene.leader()]
        killed.kill()
        assert posting.goes_on()
        assert scene.hears_again()
    assert all_done(scene.example, posting.jobs)
    killed.start()


def test_a_minority_refuses_and_comes_back(scene: Scene) -> None:
    with Posting(scene.example, scene.web) as posting:
        assert scene.hears_again()
        leader = scene.leader()
        brokers = scene.lan.hosts[:3]
        alone, node = brokers[leader], scene.cluster.nodes[leader]
        scene.lan.part(alone, [host for host in brokers if host is not alone])
        # Every peer still reaches it: the node itself must pause.
        assert wait_until(lambda: not node.answers(), within=90)
        assert posting.goes_on()
        assert scene.hears_again()
        scene.lan.join()
        assert scene.answers_again(node)
        assert posting.goes_on()
    assert all_done(scene.example, posting.jobs)


def test_unplugged_node_is_left_for_another(scene: Scene) -> None:
    with Posting(scene.example, scene.web) as posting:
        assert scene.hears_again()
        leader = scene.leader()
        scene.lan.unplug(scene.lan.hosts[leader])
        assert posting.goes_on()
        assert scene.hears_again()
        scene.lan.join()
        assert scene.answers_again(scene.cluster.nodes[leader])
    assert all_done(scene.example, posting.jobs)


def test_memory_alarm_stops_publishers_but_no_job(scene: Scene) -> None:
    full = scene.cluster.nodes[0]
    with Posting(scene.example, scene.web) as posting:
        assert scene.hears_again()
        full.control("set_vm_memory_high_watermark", "0.00001")
        try:
            assert posting.goes_on()
            waiting = list(posting.jobs)
            done = "SELECT 1 FROM background_jobs WHERE id = ANY (%s) AND finished_at IS NULL"
            assert wait_until(lambda: scene.example.rows(done, waiting) == [], within=90)
        finally:
            full.control("set_vm_memory_high_watermark", "0.4")
        assert scene.hears_again()
    assert all_done(scene.example, posting.jobs)


def test_all_nodes_are_away_and_come_back(scene: Scene) -> None:
    with Posting(scene.example, scene.web) as posting:
        assert scene.hears_again()
        scene.cluster.kill()
        assert posting.goes_on(60)
        scene.cluster.start()
        assert scene.hears_again()
        assert posting.goes_on()
    assert all_done(scene.example, posting.jobs)


def test_acknowledgement_timeout_never_meets_a_long_job(scene: Scene) -> None:
    example = scene.example
    with Posting(example, scene.web) as posting:
        assert scene.hears_again()
        long = example.enqueue({"how": "wait_for_cancel"}, handler=Faulty)
        assert wait_until(lambda: example.job(long)["status"] == "running", within=90)
        ticket = example.ticket(long)
        assert ticket is not None
        assert ticket["backend"] == "rabbitmq"
        # The limit is in force: this consumer does not acknowledge.
        with broker_channel(scene.cluster.nodes[0].url) as channel:
            queue = channel.queue_declare("", exclusive=True).method.queue
            channel.basic_publish("", queue, b"kept")
            with pytest.raises(ChannelClosedByBroker, match="timed out"):
                for _ in zip(range(60), channel.consume(queue, inactivity_timeout=1), strict=False):
                    pass
        assert posting.goes_on()
        assert (example.job(long)["status"], example.job(long)["attempt"]) == ("running", 1)
        example.cancel(long)
        assert wait_until(lambda: example.job(long)["status"] == "cancelled", within=90)


def holders(example: ExampleInstallation) -> dict[str, int]:
    """Count the running jobs of each worker that holds some."""
    rows = example.rows("SELECT worker_id, count(*) AS n FROM turno.tickets WHERE state = 'running' GROUP BY worker_id")
    return {str(row["worker_id"]): row["n"] for row in rows}


@pytest.mark.parametrize("how", ["killed", "unplugged"])
def test_two_hosts_share_work_and_take_over_lost_jobs(scene: Scene, how: str) -> None:
    example, host, worker = scene.example, scene.workers[0], scene.example.workers[0]
    jobs = [example.enqueue({"how": "wait_for_cancel"}, handler=Faulty) for _ in range(4)]
    assert wait_until(lambda: {example.job(job_id)["status"] for job_id in jobs} == {"running"}, within=90)
    assert sorted(holders(example).values()) == [2, 2]
    (lost,) = (str(row["id"]) for row in example.rows("SELECT id, host FROM turno.workers") if row["host"] == host.name)
    claimed = "SELECT job_id FROM turno.tickets WHERE worker_id = %s"
    its_jobs = [row["job_id"] for row in example.rows(claimed, lost)]
    if how == "killed":
        processes.kill(worker.pid)
    else:
        scene.lan.unplug(host)
    try:
        for job_id in set(jobs) - set(its_jobs):
            example.cancel(job_id)
        assert wait_until(lambda: all(example.job(job_id)["attempt"] == 2 for job_id in its_jobs), within=90)
        assert wait_until(lambda: lost not in holders(example) and sum(holders(example).values()) == 2, within=90)
    finally:
        scene.lan.join()
    for job_id in its_jobs:
        example.cancel(job_id)
    assert wait_until(lambda: example.rows("SELECT 1 FROM turno.tickets") == [], within=90)
    attempts = example.rows("SELECT attempt, outcome FROM background_job_attempts WHERE job_id = ANY (%s)", its_jobs)
    assert Counter((row["attempt"], row["outcome"]) for row in attempts) == {(1, "crashed"): 2, (2, "cancelled"): 2}
    assert {example.job(job_id)["status"] for job_id in jobs} == {"cancelled"}
