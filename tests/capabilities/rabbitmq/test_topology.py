"""The objects in the broker, their creator, and the rights of each side: existing objects of deploy/ are used
unchanged."""

import json
import os
import re
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pika
import pytest
from click.testing import CliRunner
from pika.exceptions import AMQPConnectionError, ChannelClosedByBroker

from cli.servers.free_port import free_port
from cli.servers.private_rabbitmq import Node
from tests.broker import broker_channel
from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import Faulty
from tests.tls import make_authority, make_certificate
from turno.capabilities.rabbitmq.topology import EXCHANGE, JOBS, QUEUE, TopologyDiffers, TopologyMissing, nodes, prepare
from turno.commands.main import main
from turno.errors import TurnoError
from turno.testing.wait import wait_until

DEPLOY = Path(__file__).resolve().parents[3] / "deploy" / "rabbitmq"
# A command of RabbitMQ's takes a second; on a crowded machine, ten.
pytestmark = pytest.mark.timeout(600)
PASSWORDS = {f"TURNO_{side}_PASSWORD": f"the {side} side's" for side in ("SETUP", "RELAY", "CONSUMER")}


class Deployed:
    """A node that is configured and prepared by the files of deploy/ alone."""

    def __init__(self, folder: Path) -> None:
        self.authority = make_authority(folder, "authority")
        make_certificate(self.authority, "node", address="127.0.0.1")
        self.port = free_port()
        settings = (DEPLOY / "rabbitmq.conf").read_text(encoding="utf-8")
        for deployed, local in {
            "listeners.ssl.default = 5671": f"listeners.ssl.1 = 127.0.0.1:{self.port}",
            "/etc/rabbitmq/tls/ca.pem": str(self.authority),
            "/etc/rabbitmq/tls": str(folder),
        }.items():
            assert deployed in settings
            settings = settings.replace(deployed, local)
        self.node = Node(folder=folder / "node", settings=settings)

    def start(self) -> None:
        self.node.launch()
        assert wait_until(self.greets, within=180, every=0.1)
        self.run("permissions.sh", PASSWORDS)

    def greets(self) -> bool:
        try:
            ssl.get_server_certificate(("127.0.0.1", self.port), ca_certs=str(self.authority), timeout=60)
        except OSError:
            return False
        return True

    def run(self, script: str, environment: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            ["sh", str(DEPLOY / script)], env=self.node.variables | (environment or {}), capture_output=True,
            text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def url(self, side: str, *, authority: Path | None = None) -> str:
        password = quote(PASSWORDS[f"TURNO_{side.upper()}_PASSWORD"], safe="")
        options = quote(repr({"cafile": str(authority or self.authority)}))
        return f"amqps://turno_{side}:{password}@127.0.0.1:{self.port}/turno?ssl_options={options}"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    broker = Deployed(tmp_path_factory.mktemp("broker"))
    try:
        broker.start()
        yield broker
    finally:
        broker.node.kill()


def refusal(broker: Deployed, side: str, deed: Any) -> int | None:
    """Do it as one side; return the code by which the broker refuses, if it does."""
    with closing(pika.BlockingConnection(nodes(broker.url(side)))) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        try:
            deed(channel)
        except ChannelClosedByBroker as error:
            return int(error.reply_code)
    return None


@pytest.mark.rabbitmq
def test_each_side_has_exactly_its_rights(broker: Deployed) -> None:
    with pytest.raises(TopologyMissing, match="run `turno broker create` once"):
        prepare(broker.url("consumer"))
    done = CliRunner().invoke(
        main, ["broker", "create"], env={"RABBITMQ_URL": broker.url("setup"), "TURNO_DOTENV": "read"}
    )
    assert done.exit_code == 0, done.output
    prepare(broker.url("setup"))
    for side in ("relay", "consumer"):
        prepare(broker.url(side))

    def publish(channel: Any) -> None:
        channel.basic_publish(EXCHANGE, JOBS, b"{}", mandatory=True)

    def consume(channel: Any) -> None:
        channel.basic_get(QUEUE)

    def count(channel: Any) -> None:
        channel.queue_declare(QUEUE, passive=True)

    def delete(channel: Any) -> None:
        channel.queue_delete(QUEUE)

    def read_quarantine(channel: Any) -> None:
        channel.basic_get("turno.quarantine")

    assert [refusal(broker, "relay", deed) for deed in (publish, count)] == [None, None]
    assert [refusal(broker, "relay", deed) for deed in (consume, delete, read_quarantine)] == [403, 403, 403]
    assert [refusal(broker, "consumer", deed) for deed in (consume, count)] == [None, None]
    assert [refusal(broker, "consumer", deed) for deed in (publish, delete, read_quarantine)] == [403, 403, 403]
    assert "guest" not in broker.node.control("list_users")


@pytest.mark.rabbitmq
def test_a_consumer_needs_no_more_than_these_two_users(example: ExampleInstallation, broker: Deployed) -> None:
    prepare(broker.url("setup"))
    example.backend, example.faulty = "rabbitmq", True
    example.extra |= {"RABBITMQ_URL": broker.url("consumer"), "TURNO_RABBITMQ_RELAY_URL": broker.url("relay")}
    with broker_channel(broker.url("relay")) as relay, broker_channel(broker.url("setup")) as quarantine:
        quarantine.queue_purge("turno.quarantine")
        relay.basic_publish(EXCHANGE, JOBS, b"junk")
        example.start_consumer(TURNO_MAX_CHILDREN="1")

        def consumed() -> bool:
            return bool(quarantine.queue_declare("turno.quarantine", passive=True).method.message_count)

        assert wait_until(consumed, within=90)
    # The only child is busy with the first, so that the rest stay where they were published.
    for _ in range(3):
        example.enqueue({"how": "wait_for_cancel"}, handler=Faulty)
    published = "SELECT 1 FROM turno.tickets WHERE published_at IS NOT NULL"
    assert wait_until(lambda: example.rows(published) != [], within=90)


@pytest.mark.rabbitmq
def test_client_refuses_a_broker_without_valid_certificate(broker: Deployed, tmp_path: Path) -> None:
    stranger = make_authority(tmp_path, "stranger")
    with pytest.raises(ssl.SSLCertVerificationError, match="self-signed certificate"):
        prepare(broker.url("setup", authority=stranger))
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        prepare(broker.url("setup").replace("@127.0.0.1:", "@localhost:"))


@pytest.mark.rabbitmq
def test_client_without_tls_is_refused(broker: Deployed) -> None:
    assert not broker.node.answers()
    with pytest.raises(AMQPConnectionError):
        prepare(broker.url("setup").replace("amqps:", "amqp:").partition("?")[0])


@pytest.mark.rabbitmq
def test_health_is_reported_only_for_a_working_node(broker: Deployed) -> None:
    assert broker.run("health.sh").endswith("\nok\n")
    broker.node.control("set_vm_memory_high_watermark", "0.00001")
    with pytest.raises(AssertionError, match="alarm"):
        broker.run("health.sh")
    broker.node.control("set_vm_memory_high_watermark", "0.4")


@pytest.mark.rabbitmq
def test_a_release_without_a_limit_needs_no_policy(broker: Deployed) -> None:
    broker.run("policies.sh")
    assert broker.node.control("list_policies", "-p", "turno", "--no-table-headers").strip() == ""


def test_from_release_4_the_limit_of_returns_is_lifted(tmp_path: Path) -> None:
    stand_in = tmp_path / "rabbitmqctl"
    stand_in.write_text('#!/bin/sh\n[ "$2" = version ] && echo 4.1.0 || printf "%s\\n" "$@"\n')
    stand_in.chmod(0o700)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", str(DEPLOY / "policies.sh")], env=path, capture_output=True, text=True, check=True)
    *_, pattern, policy = done.stdout.splitlines()
    assert json.loads(policy) == {"delivery-limit": -1}
    assert re.search(pattern, QUEUE)
    assert not re.search(pattern, "turno.quarantine")


@pytest.mark.rabbitmq
def test_mismatched_object_is_named_with_the_remedy(broker: Deployed) -> None:
    own = broker.url("setup")
    prepare(own)
    with closing(pika.BlockingConnection(nodes(own))) as connection:
        channel = connection.channel()
        channel.queue_delete(QUEUE)
        channel.queue_declare(QUEUE, durable=True, arguments={"x-queue-type": "classic"})
        with pytest.raises(TopologyDiffers, match=r"queue turno\.jobs is not as Turno makes it.*delete it and start"):
            prepare(own)
        channel.queue_delete(QUEUE)
    prepare(own)


def test_missing_broker_is_reported() -> None:
    env = {"RABBITMQ_URL": "amqp://turno:secret@127.0.0.1:1/turno", "TURNO_DOTENV": "read"}
    done = CliRunner().invoke(main, ["broker", "create"], env=os.environ | env)
    assert done.exit_code == 1
    assert "cannot reach the broker of RABBITMQ_URL" in done.output
    assert "secret" not in done.output
    assert issubclass(TopologyDiffers, TurnoError)
