"""What the relay and the consumers ask of the tickets, as the engine: the database orders, the broker distributes."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg

from turno.jobs.claim import Claim
from turno.jobs.message import Message
from turno.store.engine.tickets import TypeVersion, claim_of, in_step

Engine = psycopg.Connection[Any]


def unpublished(engine: Engine, window: int, limit: int) -> list[Message]:
    """Return what should be in the broker and is not: up to `window` of each tenant, tenants in turn.

    Only what living consumers have entered as known; of a tenant its best band first.
    """
    rows = engine.execute("SELECT job_id, schema, attempt FROM unpublished(%s, %s)", (window, limit))
    return [Message(*row) for row in rows]


def mark_published(engine: Engine, sent: Sequence[Message]) -> None:
    """Remember what the broker has confirmed."""
    jobs, attempts = [message.job_id for message in sent], [message.attempt for message in sent]
    engine.execute("SELECT mark_published(%s, %s)", (jobs, attempts))


def unpublish(engine: Engine, waiting_for: timedelta) -> int:
    """Have what was published that long ago and was never claimed published again; returns how many."""
    row = engine.execute("SELECT unpublish(%s)", (waiting_for,)).fetchone()
    return int(row[0]) if row else 0


def claim_message(engine: Engine, worker: UUID, message: Message, *, types: Sequence[TypeVersion]) -> Claim | None:
    """Take the job a message names, if it may run now, is its tenant's, and its type is known here.

    What its tenant has in a better band is taken in its place, one time in eight what it has that is older.
    """
    names, versions = in_step(types)
    row = engine.execute(
        "SELECT * FROM claim_message(%s, %s, %s, %s, %s)", (worker, message.job_id, message.schema, names, versions)
    ).fetchone()
    return claim_of(row) if row else None
