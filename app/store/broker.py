"""What the relay and the consumers ask of the tickets, as the engine: the database orders, the broker distributes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg

from app.jobs.claim import Claim
from app.jobs.job import Priority
from app.jobs.message import Message
from app.store.tickets import TypeVersion, claim_of, in_step

Engine = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to publish, and the band it goes to."""

    message: Message
    band: Priority


def unpublished(engine: Engine, window: int, limit: int) -> list[Outgoing]:
    """Return what should be in the broker and is not: up to `window` of each tenant and band, tenants in turn."""
    rows = engine.execute("SELECT job_id, schema, attempt, priority FROM unpublished(%s, %s)", (window, limit))
    return [Outgoing(Message(job_id, schema, attempt), Priority(band)) for job_id, schema, attempt, band in rows]


def mark_published(engine: Engine, sent: Sequence[Message]) -> None:
    """Remember what the broker has confirmed."""
    jobs, attempts = [message.job_id for message in sent], [message.attempt for message in sent]
    engine.execute("SELECT mark_published(%s, %s)", (jobs, attempts))


def unpublish(engine: Engine, band: Priority, waiting_for: timedelta) -> int:
    """Have what was published that long ago and was never claimed published again; returns how many."""
    row = engine.execute("SELECT unpublish(%s, %s)", (int(band), waiting_for)).fetchone()
    return int(row[0]) if row else 0


def claim_message(engine: Engine, worker: UUID, message: Message, *, types: Sequence[TypeVersion]) -> Claim | None:
    """Take the job a message names, if it may run now, is its tenant's, and its type is known here."""
    names, versions = in_step(types)
    row = engine.execute(
        "SELECT * FROM claim_message(%s, %s, %s, %s, %s)", (worker, message.job_id, message.schema, names, versions)
    ).fetchone()
    return claim_of(row) if row else None
