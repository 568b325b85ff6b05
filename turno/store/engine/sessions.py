"""Measure each session's share of the server's resources, as the engine, and end sessions of a tenant."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, LiteralString

from turno.store.engine.engine import Engine
from turno.store.statements import qualified

Address = tuple[str | int | None, ...]
# Only functions, no view and no catalog: a relation has to be locked, and the lock table may be full. A lock of the
# fast path is no entry of the table, and a predicate lock is one of another table.
_MEASURE: LiteralString = """
WITH held AS MATERIALIZED (
    SELECT l.pid, count(*) AS locks FROM pg_lock_status() AS l
    WHERE NOT l.fastpath AND l.mode <> 'SIReadLock' AND l.pid IS NOT NULL GROUP BY l.pid)
SELECT pg_postmaster_start_time() AS started_at, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) AS timeline,
       inet_server_addr()::text AS address, inet_server_port() AS port,
       pg_notification_queue_usage() AS notifications,
       current_setting('max_locks_per_transaction')::bigint * current_setting('max_connections')::bigint AS lock_table,
       (SELECT coalesce(sum(locks), 0) FROM held)::bigint AS locks,
       (SELECT coalesce(jsonb_object_agg(pid, locks), '{}') FROM held WHERE locks > %s) AS largest
"""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its start, the address at which it was reached, and the timeline of its history."""

    started_at: datetime
    address: Address
    timeline: str

    def replaces(self, other: "Server") -> bool:
        """Return whether this is another server, or another history behind the same address; a restart is neither."""
        return self.timeline != other.timeline or (
            self.started_at != other.started_at and self.address != other.address
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The use of the server's shared resources.

    `lock_table` is the number of locks that the server has memory for, `locks` the present number, `largest` the number
    of each large holder by its process; `notifications` is how full the notification queue is, up to 1.
    """

    server: Server
    notifications: float
    lock_table: int
    locks: int
    largest: dict[int, int]


def measure(engine: Engine, *, more_than: int) -> Load:
    """Return the present load; a session that holds `more_than` locks is listed."""
    (measured,) = engine.rows(partial(_load, engine.address), _MEASURE, more_than)
    return measured


def schemas(engine: Engine, pids: Collection[int]) -> dict[int, str]:
    """Return the tenant's schema of each of these sessions that runs under a tenant's login."""
    return dict(engine.execute("SELECT pid, schema FROM session_schemas(%s)", (list(pids),)).fetchall())


def end(engine: Engine, schema: str, pids: Collection[int]) -> int:
    """End those of these sessions that run under this tenant's login; return how many."""
    return int(engine.value(qualified("SELECT {}.sessions_end(%s)", schema), list(pids)))


def _load(
    reached_at: Address,
    *,
    started_at: datetime,
    timeline: str,
    address: str | None,
    port: int | None,
    largest: dict[str, int],
    **use: Any,
) -> Load:
    server = Server(started_at, (*reached_at, address, port), timeline)
    return Load(server=server, largest={int(pid): locks for pid, locks in largest.items()}, **use)
