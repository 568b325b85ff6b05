"""Publish ready tickets, one process at a time: the database orders, the broker distributes."""

import logging
import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from threading import Event
from time import monotonic
from typing import Protocol

import psycopg

from turno import crash_points
from turno.errors import TurnoError
from turno.jobs.message import Message
from turno.store.engine import broker, leases, tickets
from turno.store.engine_link import Connection, EngineLink

log = logging.getLogger(__name__)

LEASE = timedelta(seconds=5)
KEEP_EVERY = LEASE.total_seconds() / 4
PUBLISH_BATCH = 256
SHORTEST, LONGEST = 0.005, 1.0  # seconds between two looks while nothing is to be published
LEASE_POLL_SECONDS = 1.0  # seconds between two looks whether the one who publishes is gone
LOST_CHECK_SECONDS = 5.0  # seconds between two looks for messages that got lost
LOST_IN_A_FULL_QUEUE = timedelta(minutes=5)  # what is said of an empty queue may not be said of one in which much waits


class Publisher(Protocol):
    """Whoever speaks to the broker."""

    def publish(self, outgoing: Sequence[Message]) -> list[Message]:
        """Return what the broker has confirmed; raises TurnoError if it is away."""

    def waiting(self) -> int:
        """Return how many messages wait; raises TurnoError if the broker is away."""


class Relay:
    """Keeps a bounded window of each tenant's tickets in the broker while it holds the lease."""

    def __init__(
        self,
        *,
        engine: EngineLink,
        publisher: Publisher,
        holder: str,
        window: int,
        lost_after: timedelta,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._engine = engine
        self._publisher = publisher
        self._holder = holder
        self._window = window
        self._lost_after = lost_after
        self._chance = chance
        self._rest = SHORTEST
        self._look_for_lost_at = monotonic()
        self._keep_at = 0.0
        self._listens: Connection | None = None

    def run(self, stopped: Event) -> None:
        """Publish until stopped, whatever fails."""
        while not stopped.is_set():
            try:
                if self._keep():
                    self._engine.run(self._wait, self.turn())
                else:
                    stopped.wait(LEASE_POLL_SECONDS)
            except psycopg.Error as error:
                log.warning("nothing published: the database does not answer: %s", error)
                stopped.wait(LEASE_POLL_SECONDS * (0.5 + self._chance()))
            except TurnoError as error:
                log.warning("nothing published: %s", error)
                # Another host may reach the broker; hints do not shorten the pause.
                self._leave()
                stopped.wait(LEASE_POLL_SECONDS * (1 + self._chance()))
        self._leave()
        self._engine.close()

    def _keep(self) -> bool:
        """Say whether this process holds the lease; renew it long before it expires."""
        if monotonic() < self._keep_at:
            return True
        asked = monotonic()
        if not self._engine.run(leases.keep, "relay", self._holder, LEASE):
            return False
        self._keep_at = asked + KEEP_EVERY
        return True

    def turn(self) -> float:
        """Publish what is due; returns after how many seconds to look again, unless a hint comes."""
        published = self._publish()
        self._look_for_lost()
        self._rest = SHORTEST if published else min(LONGEST, self._rest * 2)
        return 0.0 if published else self._rest

    def _publish(self) -> bool:
        outgoing = self._engine.run(broker.unpublished, self._window, PUBLISH_BATCH)
        if outgoing:
            sent = self._publisher.publish(outgoing)
            crash_points.reach("published")
            self._engine.run(broker.mark_published, sent)
        return bool(outgoing)

    def _look_for_lost(self) -> None:
        """Publish again what should be in the broker and is not, or was not taken out for very long."""
        if monotonic() < self._look_for_lost_at:
            return
        self._look_for_lost_at = monotonic() + LOST_CHECK_SECONDS
        lost_after = LOST_IN_A_FULL_QUEUE if self._publisher.waiting() else self._lost_after
        if lost := self._engine.run(broker.unpublish, lost_after):
            log.warning("published again: %s messages were not taken in %s", lost, lost_after)

    def _wait(self, connection: Connection, seconds: float) -> None:
        if connection is not self._listens:
            tickets.listen(connection)
            self._listens = connection
        for timeout, most in ((seconds, 1), (0.0, 1024)):
            for _ in connection.notifies(timeout=timeout, stop_after=most):
                self._rest = SHORTEST

    def _leave(self) -> None:
        self._keep_at = 0.0
        try:
            self._engine.run(leases.drop, "relay", self._holder)
        except psycopg.Error as error:
            log.warning("the lease runs out by itself: %s", error)
