"""The two ends that speak AMQP, on one loop: a publisher whose messages are confirmed, a receiver with credit."""

import logging
import random
from collections import deque
from collections.abc import Callable, Sequence
from threading import Event
from typing import Any

import pika
from pika.adapters.select_connection import IOLoop
from pika.exceptions import AMQPError

from app.errors import TurnoError
from app.jobs.job import Priority
from app.jobs.message import Message, Undecodable
from app.queues.topology import EXCHANGE, nodes, prepare, queue_of
from app.queues.turns import Turns

log = logging.getLogger(__name__)

SHORTEST, LONGEST = 0.2, 5.0  # seconds between two tries to reach a broker that is away
HOLD = 0.1  # seconds a message may be kept from other consumers while every child here is busy
PERSISTENT = pika.BasicProperties(delivery_mode=2, content_type="application/json")


class BrokerAway(TurnoError):
    """The broker did not answer in time, or cannot be reached."""


class Link:
    """One connection with one channel; both are thrown away when either breaks, and made anew after a pause.

    Of several nodes the first is chosen by chance, and after a break the next one.
    """

    def __init__(self, loop: IOLoop, url: str, *, chance: Callable[[], float] = random.random) -> None:
        self._loop = loop
        self._url = url
        self._chance = chance
        self._nodes = deque(nodes(url))
        self._nodes.rotate(int(chance() * len(self._nodes)))
        self._pause = SHORTEST
        self._connection: pika.SelectConnection | None = None
        self.channel: Any = None

    def open(self) -> None:
        """Begin to connect; `on_ready` is called when there is a channel, each time anew."""
        self._connection = pika.SelectConnection(
            self._nodes[0],
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._opened),
            on_open_error_callback=lambda _, error: self._lost(error),
            on_close_callback=lambda _, error: self._lost(error),
            custom_ioloop=self._loop,
        )

    def on_ready(self, channel: Any) -> None:
        """Begin to use a new channel."""

    def on_lost(self) -> None:
        """Forget what belonged to the old channel."""

    def _opened(self, channel: Any) -> None:
        channel.add_on_close_callback(lambda *_: self._throw_away())
        self.channel, self._pause = channel, SHORTEST
        self.on_ready(channel)

    def _throw_away(self) -> None:
        self.channel = None
        if self._connection is not None and self._connection.is_open:
            self._connection.close()

    def _lost(self, error: object) -> None:
        self.channel = None
        self.on_lost()
        self._nodes.rotate(-1)
        log.warning("no broker: %s", error or type(error).__name__)
        self._loop.call_later(self._pause * (0.5 + self._chance()), self.open)
        self._pause = min(LONGEST, self._pause * 2)


class Publisher(Link):
    """Publishes persistent, mandatory messages, many at a time, and waits for the broker's word on each."""

    def __init__(self, loop: IOLoop, url: str, *, patience: float = 5.0) -> None:
        super().__init__(loop, url)
        self._patience = patience
        self._batch: Batch | None = None

    def publish(self, outgoing: Sequence[tuple[Message, Priority]]) -> list[Message]:
        """Return what was confirmed, from another thread than the loop's; raises BrokerAway when nothing was.

        Where a queue is missing it is made again; what came back for that is not among the confirmed.
        """
        batch = Batch(outgoing)
        self._loop.add_callback_threadsafe(lambda: self._send(batch))
        batch.over.wait(self._patience)
        self._loop.add_callback_threadsafe(lambda: self._close_late(batch))
        confirmed = batch.confirmed
        if batch.returned:
            log.error("%s messages came back: a queue is missing", len(batch.returned), extra={"alert": "unroutable"})
            self._mend()
        elif not confirmed:
            raise BrokerAway("no message was confirmed")
        return confirmed

    def waiting(self, band: Priority) -> int:
        """Return how many messages of a band wait in the broker, from another thread; raises BrokerAway."""
        answer: list[int] = []
        over = Event()

        def heard(frame: Any) -> None:
            answer.append(frame.method.message_count)
            over.set()

        def ask() -> None:
            if self.channel is not None:
                self.channel.queue_declare(queue_of(band), passive=True, callback=heard)
            else:
                over.set()

        self._loop.add_callback_threadsafe(ask)
        over.wait(self._patience)
        if not answer:
            raise BrokerAway("the broker did not say what waits")
        return answer[0]

    def on_ready(self, channel: Any) -> None:
        """Ask for confirmations."""
        channel.confirm_delivery(self._confirmed)
        channel.add_on_return_callback(self._returned)
        self._next_tag = 1

    def on_lost(self) -> None:
        """End the wait of whoever publishes: what was not confirmed may or may not be there."""
        if self._batch is not None:
            self._batch.over.set()
            self._batch = None

    def _mend(self) -> None:
        try:
            prepare(self._url)
        except AMQPError as error:
            raise BrokerAway(f"its queues could not be made again: {error!r}") from error

    def _send(self, batch: "Batch") -> None:
        if self.channel is None:
            batch.over.set()
            return
        self._batch = batch
        for message, band in batch.outgoing:
            batch.open[self._next_tag] = message
            self._next_tag += 1
            self.channel.basic_publish(EXCHANGE, band.word, message.encode(), PERSISTENT, mandatory=True)

    def _close_late(self, batch: "Batch") -> None:
        # A broker that is alive and does not confirm, as in a minority, is as good as none.
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


class Batch:
    """Messages on their way, by the broker's number for each."""

    def __init__(self, outgoing: Sequence[tuple[Message, Priority]]) -> None:
        self.outgoing = outgoing
        self.open: dict[int, Message] = {}
        self.returned: list[Message] = []  # the broker says so before it confirms them
        self.over = Event()
        self._acknowledged: list[Message] = []

    @property
    def confirmed(self) -> list[Message]:
        """Return what a queue has."""
        return [message for message in self._acknowledged if message not in self.returned]

    def settle(self, method: Any) -> None:
        """Take the broker's word for one message, or for all up to one."""
        tags = [
            tag for tag in self.open if tag == method.delivery_tag or (method.multiple and tag < method.delivery_tag)
        ]
        for tag in tags:
            message = self.open.pop(tag)
            if isinstance(method, pika.spec.Basic.Ack):
                self._acknowledged.append(message)
        if not self.open:
            self.over.set()


class Receiver(Link):
    """Hands messages over while it has credit; what is more than that goes back for other consumers.

    Each is handed over under a receipt, by which it is acknowledged or given back. Receipts of a connection that
    broke since are void: the broker delivers those messages again, and their claims decide.
    """

    def __init__(
        self, loop: IOLoop, url: str, *, hand_over: Callable[[str, Message], None], tell: Callable[[str], None]
    ) -> None:
        """Make the two ways out: messages under their receipts, and here or away whenever the broker is."""
        super().__init__(loop, url)
        self._hand_over = hand_over
        self._tell = tell
        self._credit = 0
        self._prefetch = 0
        self._life = 0
        self._consumers: list[str] = []
        self._held: dict[Priority, deque[tuple[int, Message]]] = {band: deque() for band in Priority}
        self._returning: object | None = None
        self._turns = Turns()

    def grant(self, more: int) -> None:
        """Have so many more messages handed over, as they come."""
        self._credit += more
        self._pass_on()
        self._consume()

    def revoke(self) -> None:
        """Hand nothing over until there is credit again."""
        self._credit = 0
        if any(self._held.values()):
            self._return_soon()

    def acknowledge(self, receipt: str) -> None:
        """Have the broker forget a message."""
        if (tag := self._tag(receipt)) is not None:
            self.channel.basic_ack(tag)

    def give_back(self, receipt: str) -> None:
        """Have the broker deliver a message to somebody else."""
        if (tag := self._tag(receipt)) is not None:
            self.channel.basic_nack(tag, requeue=True)

    def on_ready(self, channel: Any) -> None:
        """Consume, if there is credit; `channel` has begun the numbers of its deliveries anew."""
        self._life += 1
        channel.add_on_cancel_callback(lambda _: self._throw_away())  # its queue was deleted
        self._tell("here")
        self._consume()

    def on_lost(self) -> None:
        """Drop what was held: it is delivered again."""
        self._consumers = []
        for held in self._held.values():
            held.clear()
        self._tell("away")

    def _tag(self, receipt: str) -> int | None:
        life, _, tag = receipt.partition(".")
        return int(tag) if self.channel is not None and int(life) == self._life else None

    def _consume(self) -> None:
        """See to it that as much comes as there are free children; whatever is more goes back after a moment."""
        enough = self._consumers and self._credit <= self._prefetch
        if self.channel is None or enough or self._credit <= 0:
            return
        self._cancel()
        self._prefetch = self._credit
        self.channel.basic_qos(prefetch_count=self._prefetch)
        self._consumers = [self.channel.basic_consume(queue_of(band), self._on_message(band)) for band in Priority]

    def _cancel(self) -> None:
        for consumer in self._consumers:
            self.channel.basic_cancel(consumer)
        self._consumers = []

    def _on_message(self, band: Priority) -> Callable[[Any, Any, Any, bytes], None]:
        def arrived(channel: Any, method: Any, _properties: Any, body: bytes) -> None:
            try:
                message = Message.decode(body)
            except Undecodable as problem:
                log.error("message put in quarantine: %s", problem, extra={"alert": "quarantine", "band": band.word})  # noqa: TRY400
                channel.basic_reject(method.delivery_tag, requeue=False)
                return
            if method.consumer_tag not in self._consumers:
                channel.basic_nack(method.delivery_tag, requeue=True)  # it came while we were leaving
                return
            self._held[band].append((method.delivery_tag, message))
            self._pass_on()

        return arrived

    def _pass_on(self) -> None:
        while self._credit > 0 and (waiting := [band for band, held in self._held.items() if held]):
            tag, message = self._held[self._turns.pick(waiting)].popleft()
            self._credit -= 1
            self._hand_over(f"{self._life}.{tag}", message)
        if any(self._held.values()):
            self._return_soon()

    def _return_soon(self) -> None:
        if self._returning is None:
            self._returning = self._loop.call_later(HOLD, self._return_held)

    def _return_held(self) -> None:
        """Give back what still waits here, and consume again only as much as there is credit for."""
        self._returning = None
        if self.channel is None or not any(self._held.values()):
            return
        self._cancel()
        for held in self._held.values():
            while held:
                self.channel.basic_nack(held.popleft()[0], requeue=True)
        self._consume()
