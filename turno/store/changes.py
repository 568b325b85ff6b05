"""Tell all processes, through the database, which jobs changed; never inside a business transaction."""

from collections.abc import Sequence
from typing import Any, LiteralString

import psycopg

# Not the workers' channel: they would wake up for every step of every job. Any role may send or listen here, so what
# arrives names jobs and is otherwise not believed.
CHANNEL: LiteralString = "turno_changes"


def announce(session: psycopg.Connection[Any], payloads: Sequence[str]) -> None:
    """Send these payloads in one transaction: a commit with a notification takes a lock that all such commits share.

    A notification queue that is half full gets none of them: live streams also read their jobs every 2 s.
    """
    session.execute(
        "SELECT pg_notify(%s, payload) FROM unnest(%s::text[]) AS payload"
        " WHERE (SELECT pg_notification_queue_usage()) < 0.5",
        (CHANNEL, list(payloads)),
    )


def listen(session: psycopg.Connection[Any]) -> None:
    """Have this session hear what is announced."""
    session.execute("LISTEN " + CHANNEL)
