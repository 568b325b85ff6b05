"""Claims of a spawned worker: its own job first, then whatever waits, until nothing does."""

import math
from collections.abc import Collection
from datetime import timedelta
from typing import Protocol
from uuid import UUID

from app.jobs.claim import Group, Turn
from app.jobs.registry import Registry
from app.store import tickets
from app.work.engine import EngineLink


class Place(Protocol):
    """The host's permission for this worker to exist."""

    def release(self) -> None:
        """Give it back."""

    def regain(self) -> bool:
        """Try to have it again, without waiting."""

    def close(self) -> None:
        """Let go of it in a child."""


class ExecSource:
    """First the job named on the command line, then ready tickets of the exec backend."""

    def __init__(self, *, engine: EngineLink, registry: Registry, job_id: UUID | None, place: Place | None) -> None:
        self._engine = engine
        self._registry = registry
        self._job_id = job_id
        self._place = place
        self.exhausted = False
        self.types = registry.versions
        self.queues = None  # a job that was named is taken whatever its queue

    @property
    def processes(self) -> set[int]:
        """Return none."""
        return set()

    def take(self, worker: UUID, free: int, without: Collection[str] = ()) -> list[Turn]:
        """Claim the named job, later others; the place on this host is given up before leaving."""
        if self.exhausted:
            return []
        if self._job_id is not None:
            claim = self._engine.run(tickets.claim_job, worker, self._job_id, types=self.types)
            self._job_id = None
            if claim is not None:
                return [((claim,),)]
        if claims := self._waiting(worker, free, without):
            return claims
        # A dispatcher that found every place taken just now relies on us: after the place is free,
        # look once more. Its job was committed before it asked for a place, so one of us sees it.
        if self._place is not None:
            self._place.release()
            if self._waits() and self._place.regain() and (claims := self._waiting(worker, free, without)):
                return claims
        self.exhausted = True
        return []

    def learn(self, claims: Group, seconds: float, *, first: bool) -> None:
        """Do nothing: the one child runs one job at a time."""

    def patience(self) -> float:
        """Return how long it may be left alone: it is asked whenever a child is free."""
        return math.inf

    def descriptor(self) -> None:
        """Return nothing: no hints reach a worker that was launched for a job."""

    def hear(self) -> None:
        """Do nothing."""

    def pause(self) -> None:
        """Do nothing: nothing is held."""

    def _waiting(self, worker: UUID, free: int, without: Collection[str]) -> list[Turn]:
        # What cannot be loaded is claimed all the same: its attempt meets the error and records it.
        queues = self._registry.queues
        claims = self._engine.run(
            tickets.claim, worker, queues=queues, types=self.types, backend="exec", slots=free, without=without
        )
        return [((claim,),) for claim in claims]

    def _waits(self) -> bool:
        queues, at_once = self._registry.queues, timedelta(0)
        waiting = self._engine.run(
            tickets.unclaimed, backend="exec", queues=queues, types=self.types, waiting_for=at_once, limit=1
        )
        return bool(waiting)

    def drop_in_child(self) -> None:
        """Let go of the place: it is the supervisor's."""
        if self._place is not None:
            self._place.close()
