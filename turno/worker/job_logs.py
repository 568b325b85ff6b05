"""Writes what jobs have logged into their tenants' schemas: outside the jobs' transactions, and many lines at once."""

import logging
import math
from time import monotonic

import psycopg

from turno.store.engine import job_logs
from turno.store.engine.job_logs import LoggedLine
from turno.store.engine_link import EngineLink
from turno.store.outage import in_short, unreachable
from turno.worker.child import Child

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0  # until the lines of a job that is at work are looked for again
REST_FACTOR = 20  # times what a write took: so it takes at most a twentieth of the supervisor's time
SHORTEST_REST, LONGEST_REST = 0.2, 5.0  # seconds
FLUSH_SECONDS = 0.25  # of writing, after which the supervisor has to look after other things
MOST_WAITING = 10_000  # lines that wait for a database that is away; newer ones are left out
MOST_AT_ONCE = 1000  # lines of one tenant that one statement writes


class JobLogs:
    """Takes the lines from the memory that the children share with this process, and writes what is due.

    Lines whose job is locked are tried again; a tenant whose lines are refused loses them, and no other tenant's are
    delayed.
    """

    def __init__(self, engine: EngineLink, *, keep: int) -> None:
        """`keep` is how many lines of an attempt stay, the newest: none with 0."""
        self._engine = engine
        self._keep = keep
        self._waiting: dict[str, list[LoggedLine]] = {}  # by the tenant's schema
        self._lines = 0
        self._rested_at = monotonic()
        self._looked = monotonic()

    def collect(self, child: Child) -> None:
        """Take the lines that this child's jobs have logged since the last time."""
        self._looked = monotonic()
        for claim, line in child.take_lines():
            if self._lines < MOST_WAITING:
                logged = LoggedLine(claim.job_id, claim.attempt, *line[2:])
                self._waiting.setdefault(claim.login.schema, []).append(logged)
                self._lines += 1

    @property
    def look_at(self) -> float:
        """The moment to look again for lines of jobs at work, on the monotonic clock; never if none is kept."""
        return self._looked + LOOK_SECONDS if self._keep else math.inf

    @property
    def due(self) -> float:
        """The moment of the next write, on the monotonic clock; infinite if nothing waits."""
        return max(self._rested_at, self._engine.again_at) if self._waiting else math.inf

    def flush(self, *, at_once: bool = False) -> None:
        """Write what is due."""
        began = monotonic()
        if not self._waiting or self._engine.away or (began < self._rested_at and not at_once):
            return
        for schema in list(self._waiting):
            if not self._written(schema):
                break
            if monotonic() - began > FLUSH_SECONDS and not at_once:
                break
        done = monotonic()
        self._rested_at = done + min(max(SHORTEST_REST, REST_FACTOR * (done - began)), LONGEST_REST)

    def _written(self, schema: str) -> bool:
        """Write a tenant's lines, or have them wait; false if the database is away."""
        lines = self._waiting.pop(schema)
        self._lines -= len(lines)
        while lines:
            now, lines = lines[:MOST_AT_ONCE], lines[MOST_AT_ONCE:]
            try:
                self._engine.run(job_logs.put, schema, now, keep=self._keep)
            except psycopg.Error as error:
                # A job may be locked for as long as its handler's transaction: its lines are tried again.
                if (away := unreachable(error)) or isinstance(error, psycopg.errors.LockNotAvailable):
                    self._waiting[schema] = now + lines
                    self._lines += len(now) + len(lines)
                    return not away
                log.warning("log lines not kept: %s", in_short(error), extra={"job_id": str(now[0].job_id)})
        return True
