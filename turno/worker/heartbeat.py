"""A worker's heartbeat and its answer: jobs to stop, the recorded claims, and the orders of operators."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from uuid import UUID

import psycopg

from turno.errors import TurnoError
from turno.jobs.job import Claim
from turno.store.engine.engine import Engine, Orders
from turno.store.engine_link import RETRY
from turno.store.outage import in_short
from turno.worker.time_limits import Timings

log = logging.getLogger(__name__)


class DeclaredDead(TurnoError):
    """Other workers may have this worker's jobs now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """The answer of a heartbeat: the orders, and the claims of this worker according to the tickets.

    With `cut_off`, the database has not answered for so long that other workers may have taken all claims.
    """

    held: Sequence[Claim] = ()
    cut_off: bool = False
    orders: Orders | None = None  # None: not read, because nothing has changed


class Heartbeat:
    """Updates the worker's row periodically; more often while the database is away."""

    def __init__(self, *, engine: Engine, timings: Timings) -> None:
        self._engine = engine
        self._timings = timings
        self._answered_at = self.due = monotonic()

    def beat(self, worker: UUID) -> Pulse:
        """Beat if it is time; raises DeclaredDead if other workers have declared this worker dead."""
        if monotonic() < self.due:
            return Pulse()
        try:
            orders = self._engine.keep_alive(worker)
            held = self._engine.held(worker)
        except psycopg.Error as error:
            log.warning("heartbeat failed: %s", in_short(error))
            self.due = max(self._engine.again_at, monotonic() + min(RETRY, self._timings.heartbeat))
            return Pulse(cut_off=monotonic() > self._answered_at + self._timings.dead_after)
        if orders is None:
            raise DeclaredDead("this worker was silent for too long and others have its jobs; it stops")
        self._answered_at = monotonic()
        self.due = self._answered_at + self._timings.heartbeat
        return Pulse(held=held, orders=orders)
