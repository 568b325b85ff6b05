"""Writes the log lines of jobs into their tenants' schemas, in batches and outside the jobs' transactions."""

import logging
import math
from time import monotonic

import psycopg

from turno.store.engine.engine import Engine, LoggedLine
from turno.store.outage import in_short, unreachable
from turno.worker.child import Child

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0  # until the lines of a job that is at work are looked for again
PAUSE_FACTOR = 20  # times the duration of a write: writing takes at most a twentieth of the supervisor's time
MIN_PAUSE, MAX_PAUSE = 0.2, 5.0  # seconds
FLUSH_SECONDS = 0.25  # of writing, after which the supervisor has to look after other things
MOST_WAITING = 10_000  # lines in memory; above this the tenant with the most lines loses its newest line
MOST_AT_ONCE = 1000  # lines of a tenant per statement


class JobLogs:
    """Takes the lines from the memory shared with the children, and writes the due ones.

    A tenant with a locked table delays only its own lines, and cannot displace the lines of another tenant; lines that
    the tenant's schema refuses are dropped with a warning.
    """

    def __init__(self, engine: Engine, *, keep: int) -> None:
        """`keep` is how many lines of an attempt stay, the newest: none with 0."""
        self._engine = engine
        self._keep = keep
        self._waiting: dict[str, list[LoggedLine]] = {}  # by the tenant's schema
        self._lines = 0
        self._paused_until = monotonic()
        self._looked = monotonic()

    def collect(self, child: Child) -> None:
        """Take the lines that this child's jobs have logged since the last time."""
        self._looked = monotonic()
        for claim, line in child.take_lines():
            self._waiting.setdefault(claim.login.schema, []).append(LoggedLine(claim.job_id, claim.attempt, *line[2:]))
            if self._lines < MOST_WAITING:
                self._lines += 1
            else:
                max(self._waiting.values(), key=len).pop()

    @property
    def look_at(self) -> float:
        """The moment to look again for lines of jobs at work, on the monotonic clock; never if none is kept."""
        return self._looked + LOOK_SECONDS if self._keep else math.inf

    @property
    def due(self) -> float:
        """The moment of the next write, on the monotonic clock; infinite if nothing waits."""
        return max(self._paused_until, self._engine.again_at) if self._waiting else math.inf

    def flush(self, *, at_once: bool = False) -> None:
        """Write the due lines."""
        began = monotonic()
        if not self._waiting or self._engine.away or (began < self._paused_until and not at_once):
            return
        for schema in list(self._waiting):
            if not self._written(schema):
                break
            if monotonic() - began > FLUSH_SECONDS and not at_once:
                break
        done = monotonic()
        self._paused_until = done + min(max(MIN_PAUSE, PAUSE_FACTOR * (done - began)), MAX_PAUSE)

    def _written(self, schema: str) -> bool:
        """Write a tenant's lines, or have them wait; false if the database is away."""
        lines = self._waiting.pop(schema)
        self._lines -= len(lines)
        while lines:
            now, lines = lines[:MOST_AT_ONCE], lines[MOST_AT_ONCE:]
            try:
                self._engine.put_logs(schema, now, keep=self._keep)
            except psycopg.Error as error:
                # A job may be locked for as long as its handler's transaction: its lines are tried again.
                if (away := unreachable(error)) or isinstance(error, psycopg.errors.LockNotAvailable):
                    self._waiting[schema] = now + lines
                    self._lines += len(now) + len(lines)
                    return not away
                log.warning("log lines not kept: %s", in_short(error), extra={"job_id": str(now[0].job_id)})
        return True
