"""Claim as a worker does that knows some types and serves some queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turno.store.engine.claims import Claimer

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from uuid import UUID

    from turno.jobs.job import Claim
    from turno.store.engine.engine import Engine, TypeVersion


def claimer(*, queues: Sequence[str], types: Sequence[TypeVersion], backend: str) -> Claimer:
    """Return the claimer of these types in these queues, without a turn yet."""
    return Claimer(backend=backend, queues=queues, types=types)


def claim(
    engine: Engine,
    worker: UUID,
    *,
    queues: Sequence[str],
    types: Sequence[TypeVersion],
    backend: str,
    slots: int,
    without: Collection[str] = (),
) -> list[Claim]:
    """Claim one job for each of this number of children, as a new worker does."""
    batches = claimer(queues=queues, types=types, backend=backend).claim(engine, worker, slots=slots, without=without)
    return [claim for batch in batches for claim in batch]
