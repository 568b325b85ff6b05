"""What is made in the broker, by whom, and what each side may do there: the script of deploy/ is run as it is."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pika
import pytest
from click.testing import CliRunner
from pika.exceptions import ChannelClosedByBroker

from app.errors import TurnoError
from app.jobs.job import Priority
from app.queues.topology import EXCHANGE, TopologyDiffers, TopologyMissing, parameters, prepare, queue_of
from cli.main import main
from cli.private_rabbitmq import Node

DEPLOY = Path(__file__).resolve().parents[2] / "deploy" / "rabbitmq"
PASSWORDS = {f"TURNO_{side}_PASSWORD": f"the {side} side's" for side in ("SETUP", "RELAY", "CONSUMER")}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node on which the script of deploy/ has made the virtual host and the users."""
    with Node(folder=tmp_path_factory.mktemp("broker")) as node:
        script = subprocess.run(
            ["sh", str(DEPLOY / "permissions.sh")], env=node.variables | PASSWORDS, capture_output=True, text=True,
            check=False, timeout=110,
        )  # fmt: skip
        assert script.returncode == 0, script.stdout + script.stderr
        yield node


def url(node: Node, side: str) -> str:
    password = PASSWORDS[f"TURNO_{side.upper()}_PASSWORD"].replace(" ", "%20").replace("'", "%27")
    return f"amqp://turno_{side}:{password}@127.0.0.1:{node.port}/turno"


def refusal(node: Node, side: str, deed: Any) -> int | None:
    """Do it as one side; return the code by which the broker refuses, if it does."""
    with closing(pika.BlockingConnection(parameters(url(node, side)))) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        try:
            deed(channel)
        except ChannelClosedByBroker as error:
            return int(error.reply_code)
    return None


@pytest.mark.rabbitmq
def test_each_side_may_do_what_it_does_and_nothing_else(node: Node) -> None:
    with pytest.raises(TopologyMissing, match="run `turno broker` once"):
        prepare(url(node, "consumer"))
    done = CliRunner().invoke(main, ["broker"], env={"RABBITMQ_URL": url(node, "setup"), "TURNO_DOTENV": "read"})
    assert done.exit_code == 0, done.output
    prepare(url(node, "setup"))
    for side in ("relay", "consumer"):
        prepare(url(node, side))
    normal = queue_of(Priority.NORMAL)

    def publish(channel: Any) -> None:
        channel.basic_publish(EXCHANGE, "normal", b"{}", mandatory=True)

    def consume(channel: Any) -> None:
        channel.basic_get(normal)

    def count(channel: Any) -> None:
        channel.queue_declare(normal, passive=True)

    def delete(channel: Any) -> None:
        channel.queue_delete(normal)

    def read_quarantine(channel: Any) -> None:
        channel.basic_get("turno.quarantine")

    assert [refusal(node, "relay", deed) for deed in (publish, count)] == [None, None]
    assert [refusal(node, "relay", deed) for deed in (consume, delete, read_quarantine)] == [403, 403, 403]
    assert [refusal(node, "consumer", deed) for deed in (consume, count)] == [None, None]
    assert [refusal(node, "consumer", deed) for deed in (publish, delete, read_quarantine)] == [403, 403, 403]
    assert "guest" not in node.control("list_users")


@pytest.mark.rabbitmq
def test_what_is_made_differently_is_named_with_what_to_do(node: Node) -> None:
    own = node.url
    prepare(own)
    with closing(pika.BlockingConnection(parameters(own))) as connection:
        channel = connection.channel()
        channel.queue_delete("turno.low")
        channel.queue_declare("turno.low", durable=True, arguments={"x-queue-type": "classic"})
        with pytest.raises(TopologyDiffers, match=r"queue turno\.low is not as Turno makes it.*delete it and start"):
            prepare(own)
        channel.queue_delete("turno.low")
    prepare(own)


def test_a_broker_that_is_not_there_is_said_plainly() -> None:
    env = {"RABBITMQ_URL": "amqp://turno:secret@127.0.0.1:1/turno", "TURNO_DOTENV": "read"}
    done = CliRunner().invoke(main, ["broker"], env=os.environ | env)
    assert done.exit_code == 1
    assert "cannot reach the broker of RABBITMQ_URL" in done.output
    assert "secret" not in done.output
    assert issubclass(TopologyDiffers, TurnoError)
