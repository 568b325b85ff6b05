from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pika
import pytest
from pika.exceptions import UnroutableError

from cli.servers.private_rabbitmq import Node, NodeError
from tests.installation import ROOT
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pika.adapters.blocking_connection import BlockingChannel


@pytest.fixture
def channel(rabbitmq: Node) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(rabbitmq.url))
    channel = connection.channel()
    channel.confirm_delivery()
    yield channel
    connection.close()


def test_a_confirmed_message_is_consumed(channel: BlockingChannel) -> None:
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.basic_publish("", queue, b"hello", mandatory=True)
    method, _, body = next(channel.consume(queue, inactivity_timeout=60))
    channel.basic_ack(method.delivery_tag)
    assert body == b"hello"


def test_a_message_without_a_queue_comes_back(channel: BlockingChannel) -> None:
    with pytest.raises(UnroutableError):
        channel.basic_publish("", "nowhere", b"hello", mandatory=True)


def test_a_second_start_is_refused(rabbitmq: Node) -> None:
    with pytest.raises(NodeError, match="already started"):
        rabbitmq.start()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Node]:
    node = Node(folder=tmp_path / "node")
    yield node
    node.stop()


@pytest.mark.rabbitmq
def test_stop_and_kill_leave_no_process_and_keep_messages(own: Node) -> None:
    own.start()
    assert set(own.pids) < set(processes_at_home_in(own.folder))
    with pika.BlockingConnection(pika.URLParameters(own.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("kept", durable=True, arguments={"x-queue-type": "quorum"})
        channel.basic_publish("", "kept", b"still here", mandatory=True)
    own.stop()
    assert wait_until(lambda: not processes_at_home_in(own.folder), within=10)
    own.start()
    with pika.BlockingConnection(pika.URLParameters(own.url)) as connection:
        _, _, body = next(connection.channel().consume("kept", auto_ack=True, inactivity_timeout=30))
    assert body == b"still here"
    own.kill()
    assert wait_until(lambda: not processes_at_home_in(own.folder), within=10)


START = """
import sys, time
from pathlib import Path
from cli.servers.private_rabbitmq import Node
Node(folder=Path(sys.argv[1])).start()
print("started", flush=True)
time.sleep(600)
"""


@pytest.mark.rabbitmq
def test_killed_parent_takes_node_and_name_server_along(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", START, tmp_path], stdout=subprocess.PIPE, cwd=ROOT) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"started\n"
        programs = {Path(f"/proc/{pid}/comm").read_text().strip() for pid in processes_at_home_in(tmp_path)}
        assert {"epmd", "beam.smp"} <= programs
        owner.kill()
    assert wait_until(lambda: not processes_at_home_in(tmp_path), within=10)


@pytest.mark.rabbitmq
def test_no_command_is_given_to_a_node_that_is_not_there(own: Node) -> None:
    own.folder.mkdir()
    with pytest.raises(NodeError, match="not started"):
        own.control("status")
    assert processes_at_home_in(own.folder) == []


def test_a_missing_server_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(NodeError, match="install rabbitmq-server"):
        Node(folder=tmp_path).start()


def processes_at_home_in(folder: Path) -> list[int]:
    home = f"HOME={folder}".encode()
    result = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if home in variables and int(entry.name) != os.getpid():
            result.append(int(entry.name))
    return result
