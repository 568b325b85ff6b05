"""Publishes to the broker and waits until it confirms each message."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Event
from typing import Any

import pika
from pika.adapters.select_connection import IOLoop
from pika.exceptions import AMQPError

from turno.capabilities.rabbitmq.connection import Link
from turno.capabilities.rabbitmq.message import Message
from turno.capabilities.rabbitmq.topology import EXCHANGE, JOBS, QUEUE, prepare
from turno.errors import TurnoError

log = logging.getLogger(__name__)

PERSISTENT = pika.BasicProperties(delivery_mode=2, content_type="application/json")


class BrokerAway(TurnoError):
    """The broker did not answer in time, or cannot be reached."""


class Publisher(Link):
    """Publishes persistent, mandatory messages in batches, and waits until the broker confirms each message."""

    def __init__(self, loop: IOLoop, url: str, *, timeout: float = 5.0) -> None:
        super().__init__(loop, url)
        self._timeout = timeout
        self._batch: Unconfirmed | None = None

    def publish(self, outgoing: Sequence[Message]) -> list[Message]:
        """Return the confirmed messages; raises BrokerAway without any. Called outside the thread of the loop.

        A missing queue is declared again; messages returned because of it are not confirmed.
        """
        batch = Unconfirmed(outgoing)
        self._loop.add_callback_threadsafe(lambda: self._send(batch))
        batch.over.wait(self._timeout)
        self._loop.add_callback_threadsafe(lambda: self._discard_if_unconfirmed(batch))
        confirmed = batch.confirmed
        if batch.returned:
            log.error("%s messages came back: a queue is missing", len(batch.returned), extra={"alert": "unroutable"})
            self._restore_queues()
        elif not confirmed:
            raise BrokerAway("no message was confirmed")
        return confirmed

    def waiting(self) -> int:
        """Return the number of messages in the queue; raises BrokerAway. Called outside the thread of the loop."""
        answers = SimpleQueue[int | None]()

        def ask() -> None:
            if self.channel is None:
                answers.put(None)
            else:
                self.channel.queue_declare(
                    QUEUE, passive=True, callback=lambda frame: answers.put(frame.method.message_count)
                )

        self._loop.add_callback_threadsafe(ask)
        with suppress(Empty):
            if (count := answers.get(timeout=self._timeout)) is not None:
                return count
        raise BrokerAway("the broker did not report the waiting messages")

    def on_ready(self, channel: Any) -> None:
        """Ask for confirmations."""
        channel.confirm_delivery(self._confirmed)
        channel.add_on_return_callback(self._returned)
        self._next_tag = 1

    def on_lost(self) -> None:
        """End the wait of the publishing thread; a message without a confirm may or may not be in the broker."""
        if self._batch is not None:
            self._batch.over.set()
            self._batch = None

    def _restore_queues(self) -> None:
        try:
            prepare(self._url)
        except AMQPError as error:
            raise BrokerAway(f"its queues could not be made again: {error!r}") from error

    def _send(self, batch: "Unconfirmed") -> None:
        if self.channel is None:
            batch.over.set()
            return
        self._batch = batch
        for message in batch.outgoing:
            batch.open[self._next_tag] = message
            self._next_tag += 1
            self.channel.basic_publish(EXCHANGE, JOBS, message.encode(), PERSISTENT, mandatory=True)

    def _discard_if_unconfirmed(self, batch: "Unconfirmed") -> None:
        # A broker that runs without confirming, such as a node of a minority, is unusable.
        if self._batch is batch:
            self._batch = None
            if batch.open:
                self._throw_away()

    def _confirmed(self, frame: Any) -> None:
        if self._batch is not None:
            self._batch.settle(frame.method)

    def _returned(self, _channel: Any, _method: Any, _properties: Any, body: bytes) -> None:
        if self._batch is not None:
            self._batch.returned.append(Message.decode(body))


class Unconfirmed:
    """Sent messages without a confirmation, by delivery tag."""

    def __init__(self, outgoing: Sequence[Message]) -> None:
        self.outgoing = outgoing
        self.open: dict[int, Message] = {}
        self.returned: list[Message] = []  # the broker returns a message before it confirms it
        self.over = Event()
        self._acknowledged: list[Message] = []

    @property
    def confirmed(self) -> list[Message]:
        """Return the messages that a queue has accepted."""
        return [message for message in self._acknowledged if message not in self.returned]

    def settle(self, method: Any) -> None:
        """Record a confirm or a nack of a message, or of all messages up to it."""
        tags = [
            tag for tag in self.open if tag == method.delivery_tag or (method.multiple and tag < method.delivery_tag)
        ]
        for tag in tags:
            message = self.open.pop(tag)
            if isinstance(method, pika.spec.Basic.Ack):
                self._acknowledged.append(message)
        if not self.open:
            self.over.set()
