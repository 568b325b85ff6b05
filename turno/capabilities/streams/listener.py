"""LISTEN in a separate session: names of changed jobs."""

import logging
import math
from collections.abc import Callable
from time import monotonic
from typing import Any

import psycopg

from turno.store import changes
from turno.store.changes import Jobs, read_payload

log = logging.getLogger(__name__)

# Any role may notify, and reading a named job takes longer than sending a notification.
FLOOD_BYTES_PER_SECOND = 1_000_000  # bytes of notifications within a second
CLOSED_SECONDS = 1.0


class Listener:
    """Returns the jobs that notifications name; a flood of notifications ends its session for a second.

    The session runs no other statement: PostgreSQL delivers all notifications that arrive during a statement with its
    result, and they would have to fit into memory. A new session receives only notifications sent after its LISTEN.
    """

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]]) -> None:
        self._connect = connect
        self._session: psycopg.Connection[Any] | None = None
        self._closed_until = -math.inf
        self._second_ends = -math.inf
        self._bytes = 0  # received in the second that ends then

    def hear(self) -> Jobs | None:
        """Return which jobs were named since the last time; None if some of the names were lost."""
        if self._session is None:
            if monotonic() < self._closed_until:
                return {}
            self._session = self._connect()
            changes.listen(self._session)
            return None
        named: Jobs = {}
        while hints := list(self._session.notifies(timeout=0)):
            if self._is_flood(sum(len(hint.payload) for hint in hints)):
                log.warning("notifications come in a flood: live streams compare with the database instead")
                self.close()
                self._closed_until = monotonic() + CLOSED_SECONDS
                return None
            for hint in hints:
                try:
                    found = read_payload(hint.payload)
                except ValueError:
                    continue  # any role may send any text
                for tenant_id, job_ids in found.items():
                    named.setdefault(tenant_id, set()).update(job_ids)
        return named

    @property
    def descriptor(self) -> int | None:
        """The socket that is readable when something was notified; None while there is no session."""
        return None if self._session is None else self._session.fileno()

    @property
    def back_at(self) -> float:
        """When the session may be opened again, on the monotonic clock; infinity while it is open."""
        return math.inf if self._session is not None else self._closed_until

    def close(self) -> None:
        """End the session, if there is one."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _is_flood(self, heard: int) -> bool:
        now = monotonic()
        if now >= self._second_ends:
            self._second_ends, self._bytes = now + 1.0, 0
        self._bytes += heard
        return self._bytes > FLOOD_BYTES_PER_SECOND
