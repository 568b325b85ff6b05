"""Claims of a resident worker: polling is the contract, a notification only ends the wait early."""

import logging
import math
import random
from collections.abc import Callable, Collection, Sequence
from time import monotonic
from uuid import UUID

import psycopg

from turno.jobs.handler import Registry
from turno.jobs.job import Batch
from turno.store.engine.claims import Claimer
from turno.store.engine.engine import HINTS, Engine
from turno.store.outage import in_short
from turno.worker.sources.source import Source

TARGET_SECONDS = 0.02  # seconds a batch should take: meanwhile other tenants wait for the child
# Where claims are slow, a batch takes this multiple of the time of a claim, up to a bound; else claims dominate.
CLAIMS_PER_BATCH, LONGEST_SECONDS = 10, 0.1
LARGEST_BATCH = 64
SMOOTHING = 0.2  # the weight of the latest batch in the average


class BatchSizer:
    """Keeps a moving average of how long jobs of a type take; of an unknown type a batch is one job."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._claim = 0.0  # seconds that a claim takes, on the average

    def of(self, job_type: str) -> int:
        """Return how many jobs of this type are a batch."""
        seconds = self._seconds.get(job_type)
        if seconds is None:
            return 1
        within = min(LONGEST_SECONDS, max(TARGET_SECONDS, CLAIMS_PER_BATCH * self._claim))
        return max(1, min(LARGEST_BATCH, int(within / seconds)))

    def learn(self, job_type: str, seconds: float) -> None:
        """Note how long each job of a batch took."""
        before = self._seconds.get(job_type, TARGET_SECONDS)
        self._seconds[job_type] = before + SMOOTHING * (seconds - before)

    def claimed_in(self, seconds: float) -> None:
        """Note how long a claim took: on a busy machine or a slow database small batches would only make it longer."""
        self._claim += SMOOTHING * (seconds - self._claim)


log = logging.getLogger(__name__)

SHORTEST, LONGEST = 0.5, 2.0  # seconds between two polls while nothing waits
AFTER_END = 0.1  # seconds after a job's end, for the jobs that its end made ready
READ_AT_ONCE = 1024  # notifications


class PollTimer:
    """When to poll: at once while there is work, then every half second growing to two."""

    def __init__(self) -> None:
        self.plenty = False  # whether the last poll found anything
        self.now()

    def now(self) -> None:
        """Poll at once."""
        self.due, self._interval = monotonic(), SHORTEST

    def within(self, seconds: float) -> None:
        """Poll within these seconds."""
        self.due = min(self.due, monotonic() + seconds)

    def record_poll(self, batches: int, *, chance: float, due_in: float = math.inf) -> None:
        """Note how many batches a poll found; after any, the next follows at once, else when something will be due."""
        self.plenty = batches > 0
        self._interval = SHORTEST if batches else min(LONGEST, self._interval * 2)
        self.due = monotonic() + (0.0 if self.plenty else min(due_in, self._interval * (0.8 + 0.4 * chance)))


class PoolSource(Source):
    """Polls at once while there is work, then every half second growing to two, or when a hint arrives."""

    def __init__(
        self,
        *,
        engine: Engine,
        hints: Engine,
        registry: Registry,
        queues: Sequence[str] = (),
        backend: str = "pool",
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`queues` are the queues to serve; empty means all queues of its handlers."""
        handlers = [
            handler for handler in registry.handlers if not queues or not handler.all_queues().isdisjoint(queues)
        ]
        of_these = {queue for handler in handlers for queue in handler.all_queues()}
        self.queues = sorted(of_these & set(queues) if queues else of_these)
        self.types = [(handler.type, handler.version) for handler in handlers]
        # Each type in every queue served here: a job may wait in the queue that its type had when it was enqueued.
        self._claimer = Claimer(backend=backend, queues=self.queues, types=self.types)
        self._single = {handler.type for handler in handlers if handler.reads_company}
        self._sizes = BatchSizer()
        self._engine = engine
        self._hints = hints
        self._chance = chance
        # Two timers: that the reserve found nothing must not delay the next poll for a child that is free.
        self._usual, self._for_others = PollTimer(), PollTimer()
        self._timer = self._usual

    def take(self, worker: UUID, free: int, without: Collection[str] = ()) -> list[Batch]:
        """Claim for up to `free` children if it is time to poll; of short jobs a batch for each."""
        self._timer = timer = self._for_others if without else self._usual
        if monotonic() < timer.due:
            return []
        # After a silence one job is claimed at once, instead of waiting for a batch that may not be there.
        slots = free if timer.plenty else 1
        began = monotonic()
        try:
            batches = self._claimer.claim(self._engine, worker, slots=slots, sizes=self._together, without=without)
            self._sizes.claimed_in(monotonic() - began)
        except psycopg.Error as error:
            log.warning("no claim: %s", in_short(error))
            batches = []
        # A hint announces each later job, or the next poll finds it.
        timer.record_poll(len(batches), chance=self._chance(), due_in=self._claimer.due_in)
        return batches

    def _together(self, kind: str) -> int:
        return self._sizes.of(kind) if self._timer.plenty and kind not in self._single else 1

    def learn(self, job_type: str, seconds: float) -> None:
        """Note how long each job of a batch took: of short ones more are a batch.

        Its end may have made jobs ready without a hint: its parts, its parent, or the next job of its key.
        """
        self._sizes.learn(job_type, seconds)
        self._usual.within(AFTER_END)

    def poll_in(self) -> float:
        """Return the seconds until the next poll."""
        return max(0.0, self._timer.due - monotonic())

    def descriptor(self) -> int | None:
        """Return the listening connection's descriptor; None while the database is away."""
        try:
            descriptor, lost = self._hints.listen(HINTS)
        except psycopg.Error as error:
            log.warning("no hints: %s", in_short(error))
            return None
        if lost:
            self._poll_at_once()
        return descriptor

    def read_hints(self) -> None:
        """Poll at once: a job was offered, or the connection broke and hints may be lost."""
        self._poll_at_once()
        try:
            self._hints.notified(HINTS, 0, READ_AT_ONCE)
        except psycopg.Error as error:
            log.warning("hints lost: %s", in_short(error))

    def drop_in_child(self) -> None:
        """Forget the listening connection: it is the supervisor's."""
        self._hints.abandon()

    def _poll_at_once(self) -> None:
        for timer in (self._usual, self._for_others):
            timer.now()
