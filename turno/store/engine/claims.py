"""Claim ready tickets as the engine: tenant after tenant, in batches of short jobs."""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from time import monotonic
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.types.json import Jsonb

from turno.jobs.job import Batch, Claim
from turno.store.engine.engine import Engine, TypeVersion, claim_of, in_step

OLDEST_EVERY = 8  # each such claim takes the oldest tickets of any priority
LANES_BELIEVED = 20.0  # seconds; hides only tickets of the same tenant and priority that were committed late
ENTRY_BELIEVED = 20e-6  # seconds for each entry skipped between two tenants: about twenty times the cost of reading it
GAP_BELIEVED = 5.0  # seconds at most, as a gap may hide another tenant's new ticket
NEAR = 16  # tenants or gaps about which the next claim gets hints, beside four for each slot


class Hint(NamedTuple):
    """Lanes of a tenant or a gap between tenants, valid until a time of the claimer's clock."""

    value: list[dict[str, Any]]
    until: float


class ClaimMemory:
    """Keeps the start of the next claim and the hints of earlier claims; every `now` is in the claimer's seconds."""

    def __init__(self) -> None:
        """Begin at a random tenant, so that workers do not move in step."""
        self.tenant: int | None = None
        self.used = 0  # slots of that tenant's turn
        self._claims = 0
        self._hints: dict[tuple[str, str, int], Hint] = {}

    def oldest_first(self) -> bool:
        """Count a claim, and return whether it takes the oldest tickets."""
        self._claims += 1
        return self._claims % OLDEST_EVERY == 0

    def known(self, slots: int, now: float) -> dict[str, dict[str, list[dict[str, Any]]]]:
        """Return the valid hints about the tenants within reach of a claim for this number of slots."""
        self._hints = {key: hint for key, hint in self._hints.items() if hint.until > now}
        known: dict[str, dict[str, list[dict[str, Any]]]] = {}
        begin = self.tenant or 0
        near = sorted(self._hints, key=lambda key: (key[2] < begin, key[2]))[: NEAR + 4 * slots]
        for closed, kind, tenant in near:
            known.setdefault(closed, {}).setdefault(kind, []).extend(self._hints[closed, kind, tenant].value)
        return known

    def learn_gap(self, closed: str, gap: dict[str, Any], entries: int, now: float) -> None:
        """Remember that no tenant in a gap has a ticket, as a claim sent now found after this number of entries."""
        until = now + min(GAP_BELIEVED, ENTRY_BELIEVED * entries)
        self._hints[closed, "gaps", gap["since"]] = Hint([gap], until)

    def learn_lanes(self, closed: str, lanes: list[dict[str, Any]], now: float) -> None:
        """Remember where a tenant's lanes begin; later claims from known lanes do not extend their validity."""
        key = closed, "lanes", lanes[0]["tenant_id"]
        self._hints[key] = self._hints.get(key, Hint(lanes, now + LANES_BELIEVED))._replace(value=lanes)

    def drop_gaps(self) -> None:
        """Forget the hints that may hide another tenant's new ticket: an idle worker has time to search."""
        self._hints = {key: hint for key, hint in self._hints.items() if key[1] == "lanes"}


PROMOTE_EVERY = 0.1  # seconds between two promotions of due tickets
PROMOTED_AT_ONCE = 200
PROMOTE_ALL_EVERY = 5.0  # seconds during which promotion starts from the last promoted ticket
BEGINNING = ("-infinity", UUID(int=0))
DUE_WITHIN = timedelta(seconds=3)  # longer than the longest interval between two polls
SOON_AFTER = 0.005  # seconds added to a ticket's time, so that no claim comes slightly too early

CLAIM = """
SELECT c.slot, c.next_tenant, c.next_used, c.closed, to_jsonb(c.lanes) AS lanes, to_jsonb(c.gap) AS gap, c.entries,
       (c.ticket).job_id, (c.ticket).token, (c.ticket).attempt, (c.ticket).type::text AS type, (c.ticket).version,
       (c.tenant).id AS tenant_id, (c.tenant).slug, (c.tenant).schema, (c.tenant).handler_role, (c.tenant).login_epoch,
       (c.tenant).adopted_schema, (c.tenant).parent_schema
FROM claim(%s, %s, %s, %s, %s, %s::integer[], %s, %s, %s, %s, %s, %s) AS c
"""
# The columns of a row that are no part of its claim; a row without a claim has the search's findings about a tenant.
SEARCH_COLUMNS = "slot", "next_tenant", "next_used", "closed", "lanes", "gap", "entries"
PROMOTE = "SELECT promoted, since, after FROM promote(%s, %s, %s)"


class Claimer:
    """Claims for one worker: keeps the turn of the tenants, and promotes due tickets before it claims."""

    def __init__(
        self,
        *,
        backend: str,
        queues: Sequence[str],
        types: Sequence[TypeVersion],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Every type is claimed from every queue."""
        self._backend = backend
        self._queues = list(queues)
        self._types = list(types)
        self._clock = clock
        self._memory = ClaimMemory()
        self._promote_at = self._promote_all_at = clock()
        self._promoted: tuple[Any, Any] = BEGINNING
        # Seconds after an empty claim until a scheduled ticket is due; infinity if more than DUE_WITHIN.
        self.due_in = math.inf
        self._claimed_any = True  # whether the last claim took a ticket; before the first claim, due tickets may wait

    def claim(
        self,
        engine: Engine,
        worker: UUID,
        *,
        slots: int,
        sizes: Callable[[str], int] = lambda _: 1,
        without: Collection[str] = (),
    ) -> list[Batch]:
        """Claim for `slots` children, in the order of the turns; skip the tenants `without` (slugs).

        A slot is one batch of one tenant, type and version with at most `sizes` (by type) jobs; a job during which a
        worker died is alone in its batch. The result is empty only if no ticket is ready.
        """
        if not self._types:
            return []
        self.due_in = math.inf
        # After an empty claim a single ready ticket is claimed without the delay of a promotion.
        if self._claimed_any:
            self._promote(engine)
        batches = self._claim(engine, worker, slots=slots, sizes=sizes, without=without)
        if not batches and self._promote(engine):
            batches = self._claim(engine, worker, slots=slots, sizes=sizes, without=without)
        self._claimed_any = bool(batches)
        if not batches:
            self.due_in = self._due_in(engine)
        return batches

    def _due_in(self, engine: Engine) -> float:
        due_in = engine.value("SELECT due_in(%s)", DUE_WITHIN)
        return math.inf if due_in is None else max(due_in + SOON_AFTER, self._promote_at - self._clock())

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
        sent = self._clock()
        memory = self._memory
        turn = memory.tenant, memory.used, memory.oldest_first(), Jsonb(memory.known(slots, sent))
        batches = defaultdict[int, list[Claim]](list)  # by slot
        rows: list[dict[str, Any]]
        rows = engine.rows(dict, CLAIM, worker, self._backend, *kinds, slots, list(without), *turn)
        for row in rows:
            slot, tenant, used, closed, lanes, gap, entries = map(row.pop, SEARCH_COLUMNS)
            if gap is not None:
                memory.learn_gap(closed, gap, entries, sent)
            elif lanes is not None:
                memory.learn_lanes(closed, lanes, sent)
            else:
                memory.tenant, memory.used = tenant, used
                batches[slot].append(claim_of(**row))
        if not batches:
            memory.drop_gaps()
        return _for_each_slot([tuple(batch) for batch in batches.values()], slots)

    def _promote(self, engine: Engine) -> bool:
        """Promote due tickets if the interval has passed, and return whether any was due; skip known dead entries."""
        now = self._clock()
        if now < self._promote_at:
            return False
        if now >= self._promote_all_at:
            self._promoted, self._promote_all_at = BEGINNING, now + PROMOTE_ALL_EVERY
        ((promoted, since, after),) = engine.execute(PROMOTE, (PROMOTED_AT_ONCE, *self._promoted)).fetchall()
        self._promoted = BEGINNING if since is None else (since, after)
        self._promote_at = now + (0.0 if promoted >= PROMOTED_AT_ONCE else PROMOTE_EVERY)
        return bool(promoted)


def _for_each_slot(batches: list[Batch], slots: int) -> list[Batch]:
    """Return the batches; the largest batches are halved while there are fewer batches than slots."""
    while len(batches) < slots and len(largest := max(batches, key=len, default=())) > 1:
        batches.remove(largest)
        batches += largest[: len(largest) // 2], largest[len(largest) // 2 :]
    return batches
