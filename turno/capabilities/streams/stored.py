"""Store and take tickets that open a stream; the database has their hashes only."""

from dataclasses import astuple, dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

import psycopg

Web = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True)
class StreamTicket:
    """The stream of a ticket: its tenant, user and job, and the session of the ticket.

    The fields are in the order of the database's functions. `job_id` None means everything of the user. `issued_at` and
    `until` are the session's bounds in Unix seconds.
    """

    tenant: str
    user: str
    operator: bool
    job_id: UUID | None
    issued_at: float
    until: float


def put(web: Web, secret: str, ticket: StreamTicket, lifetime: timedelta) -> None:
    """Store a ticket under the hash of its secret."""
    web.execute(
        "SELECT turno.stream_ticket_put(%s, %s, %s, %s, %s, %s, %s, %s)", (_hash(secret), *astuple(ticket), lifetime)
    )


def take(web: Web, secret: str) -> StreamTicket | None:
    """Return the ticket with this secret and delete it; None without a valid ticket."""
    row = web.execute("SELECT * FROM turno.stream_ticket_take(%s)", (_hash(secret),)).fetchone()
    return StreamTicket(*row) if row else None


def _hash(secret: str) -> bytes:
    return sha256(secret.encode()).digest()
