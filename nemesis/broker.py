"""A private RabbitMQ node and its faults: one broker fault at a time, next to all other faults."""

from __future__ import annotations

import subprocess
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from threading import Event
from typing import TYPE_CHECKING

import pika
from pika.exceptions import AMQPError

from cli.servers.private_rabbitmq import NodeError
from turno.capabilities.rabbitmq.topology import QUEUE, nodes

if TYPE_CHECKING:
    from collections.abc import Callable

    from cli.servers.private_rabbitmq import Node

LOW, USUAL = "0.00001", "0.4"  # of the memory that the node may use


class FaultyBroker:
    """Executes broker faults in sequence in a thread: the node starts in seconds, and each command takes a second."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="broker")
        self._doing: Future[None] | None = None
        self._healing = Event()
        self.refusals: list[str] = []

    def strike(self, kind: str, hold: float) -> int:
        """Begin a fault that lasts `hold` seconds; return 0 during an earlier fault."""
        if self._doing is not None and not self._doing.done():
            return 0
        self._settle()
        acts: dict[str, Callable[[float], None]] = {
            "kill broker": self._kill,
            "close connections": self._close_connections,
            "memory alarm": self._raise_alarm,
            "purge queues": self._purge,
        }
        self._doing = self._thread.submit(acts[kind], hold)
        return 1

    def heal(self) -> None:
        """Wait until the broker is restored; raises NodeError if the node does not start again."""
        self._healing.set()
        self._settle()
        self._healing.clear()

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown()

    def _settle(self) -> None:
        if self._doing is not None:
            doing, self._doing = self._doing, None
            doing.result()

    def _command(self, *command: str) -> None:
        """Run a command of the node; record a command that exceeds its time limit, and continue."""
        try:
            self._node.control(*command)
        except (NodeError, subprocess.TimeoutExpired) as error:
            # Closing the connection of a frozen client takes until the client resumes.
            self.refusals.append(f"{command[0]}: {str(error)[:200]}")

    def _kill(self, hold: float) -> None:
        self._node.kill()
        self._healing.wait(hold)
        self._node.start()

    def _close_connections(self, _hold: float) -> None:
        self._command("close_all_connections", "the nemesis closes it")

    def _raise_alarm(self, hold: float) -> None:
        self._command("set_vm_memory_high_watermark", LOW)
        self._healing.wait(hold)
        self._command("set_vm_memory_high_watermark", USUAL)

    def _purge(self, _hold: float) -> None:
        try:
            with closing(pika.BlockingConnection(nodes(self._node.url))) as connection:
                connection.channel().queue_purge(QUEUE)
        except (AMQPError, OSError) as error:
            self.refusals.append(f"purge: {error!r}")
