"""Claims of a spawned worker: first the job that it was launched for, then all ready jobs, until none is left."""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from uuid import UUID

from turno.jobs.handler import Registry
from turno.jobs.job import Batch
from turno.queues.exec.slots import Slot
from turno.store.engine.claims import Claimer
from turno.store.engine.engine import Engine
from turno.worker.sources.source import Source

STAY = timedelta(minutes=1)
POLL_EVERY = 1.0  # seconds between two polls of a worker that stays
PROMOTED_AT_ONCE = 200


@dataclass(kw_only=True, eq=False)
class ExecSource(Source):
    """First the job named on the command line, then ready tickets of the exec backend, until nothing is due soon.

    A worker that was launched stays for up to a minute where something is due or a silent worker had a job, the last of
    the installation to become idle and without its slot on the host: no other may be launched before the next job is
    submitted.
    """

    engine: Engine
    registry: Registry
    job_id: UUID | None
    slot: Slot | None
    clock: Callable[[], float] = monotonic
    _idle_since: float | None = None  # and without a slot since then

    def __post_init__(self) -> None:
        self.types = self.registry.versions  # of any queue: a job that was named is taken wherever it waits
        self._claimer = Claimer(backend="exec", queues=self.registry.queues, types=self.registry.versions)

    def take(self, worker: UUID, free: int, without: Collection[str] = ()) -> list[Batch]:
        """Claim the named job, later others; the slot on this host is given up before waiting or leaving."""
        del without  # of exec the reserve is slots on the host, not children
        if self.exhausted:
            return []
        if claims := self._named(worker) or self._at_work(worker, free):
            return claims
        stays = self._stays(worker)  # read before the last claim, which finds the jobs that become ready in between
        claims = self._look_again(worker, free)
        self.exhausted = not (claims or stays)
        return claims

    def _named(self, worker: UUID) -> list[Batch]:
        if self.job_id is None:
            return []
        claim = self.engine.claim_job(worker, self.job_id, types=self.types)
        self.job_id = None
        return [] if claim is None else [(claim,)]

    def _at_work(self, worker: UUID, free: int) -> list[Batch]:
        """Claim ready jobs; release the slot if no job is ready."""
        if self._idle_since is not None:
            return []
        if claims := self._waiting(worker, free):
            return claims
        self._idle_since = self.clock()
        if self.slot is not None:
            self.slot.release()
        return []

    def _look_again(self, worker: UUID, free: int) -> list[Batch]:
        """Look once more after the slot was given up: a dispatcher that found every slot taken relies on us.

        The dispatcher commits its job before it requests a slot: the dispatcher or this worker finds the job.
        """
        if self.slot is None or not self._waits() or not self.slot.regain():
            return []
        if claims := self._waiting(worker, free):
            self._idle_since = None
            return claims
        self.slot.release()
        return []

    def poll_in(self) -> float:
        """Return the seconds before the next poll of an idle worker; a busy worker claims whenever a child is free."""
        return math.inf if self._idle_since is None else POLL_EVERY

    def _waiting(self, worker: UUID, free: int) -> list[Batch]:
        def claim(without: Collection[str] = ()) -> list[Batch]:
            return self._claimer.claim(self.engine, worker, slots=free, without=without)

        if self.slot is None:
            return claim()
        # A dispatcher that finds all slots in use reads the tenants of their jobs, which must be the present tenants.
        self.slot.use_for("")
        ordinary, others = self.slot.ordinary(), self.slot.others()
        batches = claim(others)
        if not batches and others and ordinary:
            batches = claim()
        for (claimed,) in batches:
            self.slot.use_for(claimed.login.slug)
        return batches

    def _stays(self, worker: UUID) -> bool:
        if self.slot is None or self._idle_since is None:
            return False
        idle_for = timedelta(seconds=self.clock() - self._idle_since)
        return self.engine.worth_staying(worker, idle_for=idle_for, at_most=STAY)

    def _waits(self) -> bool:
        self.engine.promote(PROMOTED_AT_ONCE)
        queues, at_once = self.registry.queues, timedelta(0)
        waiting = self.engine.unclaimed(backend="exec", queues=queues, types=self.types, waiting_for=at_once, limit=1)
        return bool(waiting)

    def drop_in_child(self) -> None:
        """Close this process's copy of the slot: it is the supervisor's."""
        if self.slot is not None:
            self.slot.close()
