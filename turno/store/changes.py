"""The channel on which all processes learn, through the database, which jobs changed."""

from collections.abc import Sequence
from typing import Any, LiteralString

import psycopg

# Not the channel of hints: workers would wake up for every step of every job. Any role may send and listen here, so a
# payload only names jobs, and no other part of it is trusted.
CHANNEL: LiteralString = "turno_changes"

# A commit with a notification takes a lock of the whole server, so all payloads go in one transaction. A notification
# queue that is half full receives none: live streams also read their jobs every 2 s.
ANNOUNCE: LiteralString = (
    "SELECT pg_notify(%s, payload) FROM unnest(%s::text[]) AS payload"
    " WHERE (SELECT pg_notification_queue_usage()) < 0.5"
)


def announce(session: psycopg.Connection[Any], payloads: Sequence[str]) -> None:
    """Send these payloads; never inside a business transaction."""
    session.execute(ANNOUNCE, (CHANNEL, list(payloads)))


def listen(session: psycopg.Connection[Any]) -> None:
    """Listen to the channel."""
    session.execute("LISTEN " + CHANNEL)
