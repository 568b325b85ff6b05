"""Bounds each session's share of the server, and notices when another server took over."""

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from time import monotonic
from typing import Any, LiteralString

import psycopg

from turno.store.engine.engine import Engine
from turno.store.outage import in_short
from turno.store.statements import qualified
from turno.worker import crash_reasons
from turno.worker.child import Child

log = logging.getLogger(__name__)

PERIOD = 1.0  # seconds between two measurements
MOST_LOCKS = 2000  # of one session, or LOCK_SHARE of the lock table if that is more
LOCK_SHARE = 0.1
CROWDED_LOCKS = 200  # of one session while the lock table is more than half full
FULL = 0.5  # of the lock table, or of the notification queue
PATIENCE = 5  # measurements in a row until a session is ended that is no child's: its own supervisor acts first
QUEUE_PAUSE = 60.0  # seconds until another transaction is ended for the queue if the last one was not the cause
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
    of each large holder by its process, as text; `notifications` is how full the notification queue is, up to 1.
    """

    server: Server
    notifications: float
    lock_table: int
    locks: int
    largest: dict[str, int]


def measure(engine: Engine, *, more_than: int) -> Load:
    """Return the present load; a session that holds `more_than` locks is listed."""
    (measured,) = engine.rows(dict[str, Any], _MEASURE, more_than)
    address = *engine.address, measured.pop("address"), measured.pop("port")
    return Load(server=Server(measured.pop("started_at"), address, measured.pop("timeline")), **measured)


class SessionWatch:
    """Measures sessions each second and ends an offender: a child of this supervisor, or a tenant's session.

    A child is killed, which ends its sessions without a statement: the server may have no memory left for one.
    """

    def __init__(self, engine: Engine, *, clock: Callable[[], float] = monotonic) -> None:
        self._engine = engine
        self._clock = clock
        self._due = clock()  # at once: the present server must be known before a failover
        self._server: Server | None = None
        self._offences: Counter[int] = Counter()  # measurements in a row, by process of the server
        self._crowded_at = math.inf  # when the notification queue was first measured more than half full
        self._queue_from = -math.inf  # when a transaction may be ended for the queue
        self._queue_was = 0.0

    @property
    def due(self) -> float:
        """The moment of the next measurement, on the monotonic clock."""
        return max(self._due, self._engine.again_at)

    def look(self, children: Iterable[Child]) -> None:
        """Measure if it is due, and kill the children above a limit or at a server that was replaced."""
        now = self._clock()
        if now < self.due:
            return
        self._due, children = now + PERIOD, list(children)
        try:
            load = measure(self._engine, more_than=CROWDED_LOCKS)
            self._follow_server(load.server, children)
            self._bound_locks(load, children, now)
            self._bound_queue(load.notifications, children, now)
        except psycopg.Error as error:
            log.warning("sessions not measured: %s", in_short(error))

    def _follow_server(self, server: Server, children: list[Child]) -> None:
        replaced = self._server is not None and server.replaces(self._server)
        self._server = server
        if replaced:
            log.error("another database server took over; jobs are given back", extra={"alert": "server"})
            for child in children:
                child.kill(crash_reasons.SERVER_REPLACED)

    def _bound_locks(self, load: Load, children: list[Child], now: float) -> None:
        crowded = load.locks > FULL * load.lock_table
        limit = CROWDED_LOCKS if crowded else max(MOST_LOCKS, int(LOCK_SHARE * load.lock_table))
        too_many = {int(pid): locks for pid, locks in load.largest.items() if locks > limit}
        for child in children:
            # The transaction is older than the measurement: the present job holds the locks.
            if child.backend in too_many and (child.in_transaction_since or math.inf) < now:
                self._kill(child, crash_reasons.locks(too_many.pop(child.backend), limit, crowded=crowded))
        self._offences = Counter({pid: self._offences[pid] + 1 for pid in too_many})
        if strangers := [pid for pid, times in self._offences.items() if times >= PATIENCE]:
            self._end(strangers, too_many)

    def _end(self, pids: list[int], locks: dict[int, int]) -> None:
        rows = self._engine.execute("SELECT pid, schema FROM session_schemas(%s)", (pids,)).fetchall()
        for pid, schema in rows:
            log.error("session ended, it held %d locks", locks[pid], extra={"alert": "session", "schema": schema})
            self._engine.execute(qualified("SELECT {}.sessions_end(%s)", schema), ([pid],))

    def _bound_queue(self, usage: float, children: list[Child], now: float) -> None:
        if usage < FULL:
            self._crowded_at, self._queue_from = math.inf, -math.inf
        elif now >= self._queue_from or usage < self._queue_was:
            self._crowded_at = min(self._crowded_at, now)
            # The oldest transaction is the likeliest cause, a later one none: no role can see which session listens.
            if old := [child for child in children if (child.in_transaction_since or math.inf) < self._crowded_at]:
                self._kill(min(old, key=lambda child: child.in_transaction_since or 0), crash_reasons.NOTIFICATIONS)
                self._queue_from = now + QUEUE_PAUSE
        self._queue_was = usage

    def _kill(self, child: Child, cause: str) -> None:
        fields = child.current.log_fields if child.current else {}
        log.error("job ended: %s", cause, extra={"alert": "session", **fields})
        child.kill(cause)
