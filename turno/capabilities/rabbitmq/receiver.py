"""Consumes at most as many messages as children are free."""

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from pika.adapters.select_connection import IOLoop

from turno.capabilities.rabbitmq.connection import Link
from turno.capabilities.rabbitmq.message import Message, Undecodable
from turno.capabilities.rabbitmq.topology import QUEUE

log = logging.getLogger(__name__)

RETURN_AFTER_SECONDS = 0.1  # seconds a message may be kept from other consumers while every child here is busy


class Receiver(Link):
    """Delivers messages while it has credit; the broker returns further messages to the queue for other consumers.

    Each is handed over under a receipt, by which it is acknowledged or given back. Receipts of a broken connection are
    void: the broker delivers its messages again, and their claims decide.
    """

    def __init__(
        self, loop: IOLoop, url: str, *, hand_over: Callable[[str, Message], None], report: Callable[[str], None]
    ) -> None:
        """`hand_over` is called with each receipt and message, `report` with "here" or "away" as the broker is."""
        super().__init__(loop, url)
        self._hand_over = hand_over
        self._report = report
        self._credit = 0
        self._prefetch = 0
        self._life = 0
        self._consumer: str | None = None
        self._buffered: deque[tuple[int, Message]] = deque()
        self._returning: object | None = None

    def grant(self, more: int) -> None:
        """Add credit for `more` messages, delivered as they arrive."""
        self._credit += more
        self._pass_on()
        self._consume()

    def revoke(self) -> None:
        """Take the credit away: no message is delivered until the next grant."""
        self._credit = 0
        if self._buffered:
            self._return_soon()

    def stop(self) -> None:
        """Consume no further message, also after a reconnection; return the undelivered messages to the broker."""
        self._credit = 0
        if self.channel is not None:
            self._cancel()
        self._return_buffered()

    def acknowledge(self, receipt: str) -> None:
        """Acknowledge a message: the broker deletes it."""
        if (tag := self._tag(receipt)) is not None:
            self.channel.basic_ack(tag)

    def give_back(self, receipt: str) -> None:
        """Reject a message: the broker delivers it to another consumer."""
        if (tag := self._tag(receipt)) is not None:
            self.channel.basic_nack(tag, requeue=True)

    def on_ready(self, channel: Any) -> None:
        """Consume, if there is credit; a new channel numbers its deliveries from 1 again."""
        self._life += 1
        channel.add_on_cancel_callback(lambda _: self._throw_away())  # the broker cancels when the queue is deleted
        self._report("here")
        self._consume()

    def on_lost(self) -> None:
        """Discard the messages of the lost channel: the broker delivers them again."""
        self._consumer = None
        self._buffered.clear()
        self._report("away")

    def _tag(self, receipt: str) -> int | None:
        life, _, tag = receipt.partition(".")
        return int(tag) if self.channel is not None and int(life) == self._life else None

    def _consume(self) -> None:
        """Set the prefetch to the credit and consume; messages beyond it are requeued after a moment."""
        enough = self._consumer and self._credit <= self._prefetch
        if self.channel is None or enough or self._credit <= 0:
            return
        self._cancel()
        self._prefetch = self._credit
        self.channel.basic_qos(prefetch_count=self._prefetch)
        self._consumer = self.channel.basic_consume(QUEUE, self._arrived)

    def _cancel(self) -> None:
        if self._consumer is not None:
            self.channel.basic_cancel(self._consumer)
        self._consumer = None

    def _arrived(self, channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        try:
            message = Message.decode(body)
        except Undecodable as problem:
            log.error("message put in quarantine: %s", problem, extra={"alert": "quarantine"})  # noqa: TRY400
            channel.basic_reject(method.delivery_tag, requeue=False)
            return
        if method.consumer_tag != self._consumer:
            channel.basic_nack(method.delivery_tag, requeue=True)  # sent before the consumer was cancelled
            return
        self._buffered.append((method.delivery_tag, message))
        self._pass_on()

    def _pass_on(self) -> None:
        while self._credit > 0 and self._buffered:
            tag, message = self._buffered.popleft()
            self._credit -= 1
            self._hand_over(f"{self._life}.{tag}", message)
        if self._buffered:
            self._return_soon()

    def _return_soon(self) -> None:
        if self._returning is None:
            self._returning = self._loop.call_later(RETURN_AFTER_SECONDS, self._return_buffered)

    def _return_buffered(self) -> None:
        """Return the undelivered messages to the broker, and consume again as much as the credit allows."""
        self._returning = None
        if self.channel is None or not self._buffered:
            return
        self._cancel()
        while self._buffered:
            self.channel.basic_nack(self._buffered.popleft()[0], requeue=True)
        self._consume()
