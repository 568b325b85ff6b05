"""Notifies live streams that jobs changed: outside the jobs' transactions, and one notification for many."""

import logging
import math
from time import monotonic

import psycopg

from turno.jobs.changes import Changes
from turno.jobs.claim import Batch
from turno.store.engine.engine import Engine
from turno.store.outage import in_short

log = logging.getLogger(__name__)

REST_FACTOR = 20  # times the duration of a notification: notifying takes at most a twentieth of the supervisor's time
SHORTEST_REST = 0.005  # seconds
LONGEST_REST = 1.0  # seconds: one slow notification, such as behind a flood of them, delays the next no longer


class ChangeNotifier:
    """Collects changed jobs until the next notification.

    A refused notification is lost: streams also read their jobs every 2 s.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._changes = Changes()
        self._rested_at = monotonic()

    def changed(self, claims: Batch) -> None:
        """Note that jobs were shown as running, made progress or ended."""
        for claim in claims:
            self._changes.add(claim.tenant_id, claim.job_id)

    @property
    def due(self) -> float:
        """The moment of the next notification, on the monotonic clock; infinite if nothing changed."""
        return self._rested_at if self._changes else math.inf

    def flush(self, *, at_once: bool = False) -> None:
        """Send the due notifications."""
        now = monotonic()
        if not self._changes or (now < self._rested_at and not at_once):
            return
        try:
            self._engine.announce_changes(self._changes.take())
        except psycopg.Error as error:
            log.warning("live streams not notified: %s", in_short(error))
        done = monotonic()
        self._rested_at = done + min(max(SHORTEST_REST, REST_FACTOR * (done - now)), LONGEST_REST)
