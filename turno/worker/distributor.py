"""Batches on their way from a claim to a child."""

import logging
import math
from collections import deque
from dataclasses import dataclass, field
from time import monotonic
from uuid import UUID

import psycopg

from turno import crash_points
from turno.jobs.job import Batch
from turno.store.engine.engine import Engine
from turno.store.outage import in_short
from turno.worker.child_pool import ChildPool, FreeSlots
from turno.worker.rescuer import Rescuer
from turno.worker.shutdown import Shutdown
from turno.worker.sources.source import Source

log = logging.getLogger(__name__)

KEPT_SECONDS = 0.05  # for which a claimed batch waits for a child of this worker before it is given back


@dataclass(kw_only=True, eq=False)
class Distributor:
    """Claims for the free children; claims that no child has begun are assigned first, or given back.

    It claims nothing while it is `quiet`.
    """

    engine: Engine
    source: Source
    children: ChildPool
    rescuer: Rescuer
    shutdown: Shutdown
    quiet: bool = False
    _waiting: deque[tuple[float, Batch]] = field(default_factory=deque)  # since when, the oldest first

    def __bool__(self) -> bool:
        """Say whether a batch waits for a child."""
        return bool(self._waiting)

    @property
    def tokens(self) -> set[UUID]:
        """Return the tokens of the claims that wait for a child."""
        return {claim.token for _, batch in self._waiting for claim in batch}

    @property
    def due(self) -> float:
        """The moment of the next claim or return, on the monotonic clock; a hint may call for a claim earlier."""
        moments = [self._give_up_at]
        if monotonic() < self._claims_at:
            moments.append(self._claims_at)
        if not self.shutdown.requested and not self.quiet:
            # Without a free child the time of the source does not count: nothing is claimed, and the loop would spin.
            polls = self._free.slots and not self._waiting
            moments.append(
                monotonic() + self.source.poll_in() if polls else max(self._claims_at, self.children.reserve_opens_at)
            )
        return min(moments)

    def add(self, batch: Batch) -> None:
        """Keep the claims of a batch that no child has begun, for another child."""
        if batch:
            self._waiting.append((monotonic(), batch))

    def distribute(self, worker: UUID) -> None:
        """Assign the kept batches to free children or new children, and claim for the remaining free children."""
        while self._waiting and self._free.slots and not self._free.without:
            self._assign(self._waiting.popleft()[1])
        self.give_back(at_once=self.shutdown.requested)
        free = self._free
        if not free.slots or self._waiting:
            self.source.pause()
            return
        for number, batch in enumerate(self.rescuer.pass_over(self._claim(worker, free))):
            crash_points.reach("claimed")
            if number < free.slots:
                self._assign(batch)
            else:  # a tenant's turn had jobs of several types
                self.add(batch)

    def give_back(self, *, at_once: bool) -> None:
        """Give back the batches that have waited long enough, for other workers."""
        while self._waiting and (at_once or monotonic() >= self._give_up_at):
            self.rescuer.not_started(self._waiting.popleft()[1])

    @property
    def _free(self) -> FreeSlots:
        """The number of claims that can be taken now: 0 while the database is away, and while the worker stops."""
        if self.shutdown.requested or self.quiet or monotonic() < self._claims_at:
            return FreeSlots(0)
        return self.children.free

    @property
    def _claims_at(self) -> float:
        return max(self.engine.again_at, self.rescuer.claims_at)

    @property
    def _give_up_at(self) -> float:
        return self._waiting[0][0] + KEPT_SECONDS if self._waiting else math.inf

    def _claim(self, worker: UUID, free: FreeSlots) -> list[Batch]:
        try:
            return self.source.take(worker, free.slots, free.without)
        except psycopg.Error as error:
            if not self.rescuer:
                raise  # no other process depends on this worker, and its source has no other job
            log.warning("no claim: %s", in_short(error))
            return []

    def _assign(self, batch: Batch) -> None:
        try:
            child = self.children.idle_child()
        except OSError as error:
            self.rescuer.no_process(batch, f"no process could be had for it: {error}")
            return
        try:
            child.assign(batch)
        except psycopg.Error as error:
            self.rescuer.no_process(batch, f"its company's login could not be had: {in_short(error)}")
        except ConnectionError:  # killed while it was idle; the supervisor has not read its end yet
            self.add(batch)
