"""Claim what waits, as the engine: tenant after tenant, several short jobs at a time."""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import timedelta
from itertools import groupby
from time import monotonic
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import namedtuple_row
from psycopg.types.json import Jsonb

from turno.jobs.claim import Batch
from turno.store.engine.claim_memory import ClaimMemory
from turno.store.engine.tickets import TypeVersion, claim_of, in_step
from turno.store.one_row import row_of, value_of

Engine = psycopg.Connection[Any]
PROMOTE_EVERY = 0.1  # seconds between two looks for what has become due
PROMOTED_AT_ONCE = 200
PROMOTE_ALL_EVERY = 5.0  # seconds for which it is believed that nothing is due before what was due last
BEGINNING = ("-infinity", UUID(int=0))
DUE_WITHIN = timedelta(seconds=3)  # longer than any worker rests between two polls
SOON_AFTER = 0.005  # seconds after a ticket is due it is looked for, lest that be a little before
PASSED_AT_MOST = 3  # tenants, of which others are taking all that waits

CLAIM = "SELECT * FROM claim(%s, %s, %s, %s, %s, %s::integer[], %s, %s, %s, %s, %s, %s)"
PROMOTE = "SELECT promoted, since, after FROM promote(%s, %s, %s)"


class Claimer:
    """Claims for one worker, and remembers whose turn is next; before it claims it makes ready what has become due."""

    def __init__(
        self,
        *,
        backend: str,
        queues: Sequence[str],
        types: Sequence[TypeVersion],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Each of the types is looked for in every one of the queues."""
        self._backend = backend
        self._queues = list(queues)
        self._types = list(types)
        self._clock = clock
        self._memory = ClaimMemory()
        self._promote_at = self._promote_all_at = clock()
        self._promoted: tuple[Any, Any] = BEGINNING
        # In how many seconds after a claim that found nothing something will be due; infinity if that is long.
        self.due_in = math.inf
        self._found = True  # whether the last claim took anything; nobody knows what has become due before the first

    def claim(
        self,
        engine: Engine,
        worker: UUID,
        *,
        slots: int,
        sizes: Callable[[str], int] = lambda _: 1,
        without: Collection[str] = (),
    ) -> list[Batch]:
        """Claim for `slots` children, in the order of the turns; of the tenants `without`, by slug, nothing.

        A slot is one batch of as many jobs as `sizes` says of their type, or several smaller ones of a tenant. A batch
        is of one tenant, type and version; a job that a worker died with is alone in it. Fewer are found where tenants
        have less than their share; nothing only where nothing waits.
        """
        if not self._types:
            return []
        self.due_in = math.inf
        # After a silence a lone job is taken at once: what has become due comes first only where there is more to do.
        if self._found:
            self._promote(engine)
        batches = self._claim(engine, worker, slots=slots, sizes=sizes, without=without)
        if not batches and self._promote(engine):
            batches = self._claim(engine, worker, slots=slots, sizes=sizes, without=without)
        self._found = bool(batches)
        if not batches:
            self.due_in = self._due_in(engine)
        return batches

    def _due_in(self, engine: Engine) -> float:
        found = value_of(engine, "SELECT due_in(%s)", DUE_WITHIN)
        return math.inf if found is None else max(found + SOON_AFTER, self._promote_at - self._clock())

    def _claim(
        self,
        engine: Engine,
        worker: UUID,
        *,
        slots: int,
        sizes: Callable[[str], int],
        without: Collection[str],
    ) -> list[Batch]:
        kinds = self._queues, *in_step(self._types), [sizes(name) for name, _ in self._types]
        for _ in range(PASSED_AT_MOST):
            sent = self._clock()
            rows = self._ask(engine, worker, self._backend, *kinds, slots=slots, without=without, now=sent)
            claimed = [row for row in rows if row.learned is None]
            passed = None
            for row in rows[len(claimed) :]:
                self._memory.learn(row.learned, sent)
                passed = row.learned.get("passed") or passed
            if claimed:
                self._memory.tenant, self._memory.used = claimed[0].next_tenant, claimed[0].next_used
                return list(_batches(claimed, sizes))
            if passed is None:
                break
            self._memory.pass_over(passed)
        self._memory.found_nothing(self._clock())
        return []

    def _ask(self, engine: Engine, *asked: Any, slots: int, without: Collection[str], now: float) -> list[Any]:
        memory = self._memory
        known = Jsonb(memory.known(slots, now))
        parameters = (*asked, slots, list(without), memory.tenant, memory.used, memory.oldest_first(), known)
        with engine.cursor(row_factory=namedtuple_row) as cursor:
            return cursor.execute(CLAIM, parameters).fetchall()

    def _promote(self, engine: Engine) -> bool:
        """Make due tickets ready, now and then, and say whether any was; behind dead entries it goes on from there."""
        now = self._clock()
        if now < self._promote_at:
            return False
        if now >= self._promote_all_at:
            self._promoted, self._promote_all_at = BEGINNING, now + PROMOTE_ALL_EVERY
        promoted, since, after = row_of(engine, PROMOTE, (PROMOTED_AT_ONCE, *self._promoted))
        self._promoted = BEGINNING if since is None else (since, after)
        self._promote_at = now + (0.0 if promoted >= PROMOTED_AT_ONCE else PROMOTE_EVERY)
        return bool(promoted)


def _batches(rows: Sequence[Any], sizes: Callable[[str], int]) -> Iterator[Batch]:
    for _, turn in groupby(rows, lambda row: row.tenant_id):
        claimed = list(turn)
        each = -(-len(claimed) // claimed[0].slots)  # before any child gets more than its share, all get something
        # Short jobs of several types take turns, as an event's subscribers do: one may go before what was there first.
        together: dict[Any, list[Any]] = {}
        size_of = {job_type: min(each, sizes(job_type)) for job_type in {row.type for row in claimed}}
        for row in claimed:
            alone = row.crashes > 0 or size_of[row.type] == 1
            together.setdefault(row.job_id if alone else (row.type, row.version), []).append(row)
        for same in together.values():
            claims = [claim_of(row[4:15]) for row in same]
            size = size_of[same[0].type]
            yield from (tuple(claims[at : at + size]) for at in range(0, len(claims), size))
