"""A connection to the broker. After a break and a pause, a connection to the next node replaces it."""

import logging
import random
from collections import deque
from collections.abc import Callable
from typing import Any

import pika
from pika.adapters.select_connection import IOLoop

from turno.capabilities.rabbitmq.topology import nodes

log = logging.getLogger(__name__)

SHORTEST, LONGEST = 0.2, 5.0  # seconds between two tries to reach a broker that is away


class Link:
    """One connection with one channel; when either breaks, both are replaced after a pause.

    The first node is chosen by chance; after a break the next node follows.
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
        """Begin to connect; `on_ready` is called whenever there is a new channel."""
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
        """Discard the state of the old channel."""

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
