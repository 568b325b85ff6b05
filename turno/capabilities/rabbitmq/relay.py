"""Publish ready tickets, in one process per installation: the database orders, the broker distributes."""

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Event
from time import monotonic

import psycopg

from turno import crash_points
from turno.capabilities.rabbitmq.message import mark_published, unpublish, unpublished
from turno.capabilities.rabbitmq.publisher import Publisher
from turno.errors import TurnoError
from turno.store.engine.engine import HINTS, Engine

log = logging.getLogger(__name__)

LEASE = timedelta(seconds=5)
RENEW_EVERY = LEASE.total_seconds() / 4
PUBLISH_BATCH = 256
SHORTEST, LONGEST = 0.005, 1.0  # seconds between two polls without a ticket to publish
LEASE_POLL_SECONDS = 1.0  # between two attempts to get the lease of the relay that publishes
LOST_CHECK_SECONDS = 5.0  # between two checks for messages that the broker lost
# An untaken message is lost if the queue is empty; in a full queue it may wait.
LOST_IN_A_FULL_QUEUE = timedelta(minutes=5)


@dataclass(kw_only=True, eq=False)
class Relay:
    """Keeps a bounded window of each tenant's tickets in the broker while it holds the lease."""

    engine: Engine
    publisher: Publisher
    holder: str
    window: int
    lost_after: timedelta
    chance: Callable[[], float] = random.random
    _interval: float = SHORTEST
    _check_lost_at: float = field(default_factory=monotonic)
    _renew_at: float = 0.0

    def run(self, stopped: Event) -> None:
        """Publish until stopped, also after failures."""
        while not stopped.is_set():
            try:
                if self._keep():
                    self._wait(self.run_once())
                else:
                    stopped.wait(LEASE_POLL_SECONDS)
            except psycopg.Error as error:
                log.warning("nothing published: the database does not answer: %s", error)
                stopped.wait(LEASE_POLL_SECONDS * (0.5 + self.chance()))
            except TurnoError as error:
                log.warning("nothing published: %s", error)
                # Another host may reach the broker; hints do not shorten the pause.
                self._leave()
                stopped.wait(LEASE_POLL_SECONDS * (1 + self.chance()))
        self._leave()
        self.engine.close()

    def _keep(self) -> bool:
        """Return whether this process holds the lease; renew the lease long before it expires."""
        if monotonic() < self._renew_at:
            return True
        began = monotonic()
        if not self.engine.take_lease("relay", self.holder, LEASE, renew=True):
            return False
        self._renew_at = began + RENEW_EVERY
        return True

    def run_once(self) -> float:
        """Publish due tickets; return the seconds until the next round, which a hint starts at once."""
        if outgoing := unpublished(self.engine, self.window, PUBLISH_BATCH):
            sent = self.publisher.publish(outgoing)
            crash_points.reach("published")
            mark_published(self.engine, sent)
        self._publish_lost_again()
        self._interval = SHORTEST if outgoing else min(LONGEST, self._interval * 2)
        return 0.0 if outgoing else self._interval

    def _publish_lost_again(self) -> None:
        """Publish messages again that the broker lost, or that no consumer took for very long."""
        if monotonic() < self._check_lost_at:
            return
        self._check_lost_at = monotonic() + LOST_CHECK_SECONDS
        lost_after = LOST_IN_A_FULL_QUEUE if self.publisher.waiting() else self.lost_after
        if lost := unpublish(self.engine, lost_after):
            log.warning("published again: %s messages were not taken in %s", lost, lost_after)

    def _wait(self, seconds: float) -> None:
        for timeout, most in ((seconds, 1), (0.0, 1024)):
            if self.engine.notified(HINTS, timeout, most):
                self._interval = SHORTEST

    def _leave(self) -> None:
        self._renew_at = 0.0
        try:
            self.engine.take_lease("relay", self.holder, timedelta(0), renew=True)
        except psycopg.Error as error:
            log.warning("the lease is not released and will expire: %s", error)
