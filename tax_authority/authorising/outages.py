"""Unavailable services of the tax authority, shared by the whole branch: no job calls a service before its time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from psycopg import Connection

FIRST_SECONDS, LONGEST_SECONDS = 15.0, 600.0


def ask_again_at(connection: Connection[Any], services: Sequence[str]) -> datetime | None:
    """Return the earliest time for a request to all of these services, None for now."""
    row = connection.execute(
        "SELECT max(ask_again_at) FROM tax_authority_outages"
        " WHERE service = ANY (%s) AND ask_again_at > clock_timestamp()",
        (list(services),),
    ).fetchone()
    return row[0] if row else None


def note_outage(connection: Connection[Any], service: str) -> datetime:
    """Record a service's failure, and return the time of the next request: each failure extends the delay."""
    row = connection.execute(
        """
        INSERT INTO tax_authority_outages AS o (service, failures, ask_again_at)
        VALUES (%(service)s, 1, clock_timestamp() + make_interval(secs => %(first)s))
        ON CONFLICT (service) DO UPDATE
        SET failures = o.failures + 1,
            ask_again_at = clock_timestamp() + make_interval(secs =>
                least(%(longest)s, %(first)s * 2 ^ least(o.failures, 20)) * (0.8 + 0.2 * random()))
        RETURNING ask_again_at
        """,
        {"service": service, "first": FIRST_SECONDS, "longest": LONGEST_SECONDS},
    ).fetchone()
    assert row is not None  # noqa: S101 - an upsert returns its row
    moment: datetime = row[0]
    return moment


def note_answer(connection: Connection[Any], service: str) -> None:
    """Write down that a service answers."""
    connection.execute("DELETE FROM tax_authority_outages WHERE service = %s", (service,))
