"""Which jobs changed: gathered by a worker, and announced to all processes on a channel of the database."""

import re
from collections.abc import Sequence
from threading import Lock
from typing import Any, LiteralString
from uuid import UUID

import psycopg

# A name has 43 bytes at most, with the space after it; PostgreSQL refuses payloads of 8000 bytes.
NAMES_A_PAYLOAD = 180
NAME = re.compile(r"([0-9]{1,9}):([0-9a-f]{32})", re.ASCII)

Jobs = dict[int, set[UUID]]


class Changes:
    """The jobs that changed since they were last taken, each named once, by their tenant's number."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._lock = Lock()

    def __bool__(self) -> bool:
        return bool(self._names)

    def add(self, tenant_id: int, job_id: UUID) -> None:
        """Note that a job changed."""
        with self._lock:
            self._names.add(f"{tenant_id}:{job_id.hex}")

    def take(self) -> list[str]:
        """Return the payloads that name all jobs, and clear the outbox."""
        with self._lock:
            names, self._names = list(self._names), set()
        return [" ".join(names[start : start + NAMES_A_PAYLOAD]) for start in range(0, len(names), NAMES_A_PAYLOAD)]


def read_payload(payload: str) -> Jobs:
    """Return the jobs that a payload names, by tenant; raises ValueError if it was not written by `take`."""
    jobs: Jobs = {}
    for name in payload.split(" "):
        match = NAME.fullmatch(name)
        if match is None:
            raise ValueError("not a payload that names jobs")
        jobs.setdefault(int(match[1]), set()).add(UUID(match[2]))
    return jobs


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
