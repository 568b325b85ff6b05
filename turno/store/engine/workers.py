"""Read the list of workers: the living workers, and the waiting jobs that no living worker can run."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, LiteralString

import psycopg
from psycopg.rows import class_row

from turno.jobs.label import counted, lacking

UNSERVED: LiteralString = "SELECT * FROM unserved(%s)"
COUNTED = 1000  # where counting ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Unserved:
    """Jobs of one backend, queue, type and version that wait and that no living worker can take."""

    backend: str
    queue: str
    type: str
    version: int
    lacks: str
    waiting: int
    tenants: int
    oldest: datetime

    @property
    def why(self) -> str:
        """Return what is missing."""
        return lacking(self.lacks, job_type=self.type, version=self.version, queue=self.queue)

    @property
    def many(self) -> str:
        """Return the number of waiting jobs, such as `2 jobs of 1 tenant wait for pool`."""
        jobs = f"{COUNTED:,} jobs or more" if self.waiting >= COUNTED else counted(self.waiting, "job")
        return (
            f"{jobs} of {counted(self.tenants, 'tenant')} {'waits' if self.waiting == 1 else 'wait'} for {self.backend}"
        )

    @property
    def sentence(self) -> str:
        """Return the missing part and the number of waiting jobs."""
        return f"{self.why}: {self.many}, the oldest since {self.oldest.isoformat(sep=' ', timespec='seconds')}"


def unserved(operator: psycopg.Connection[Any], waiting_for: timedelta) -> list[Unserved]:
    """Return the jobs that have waited for so long and that no living worker can run, as the operator."""
    with operator.cursor(row_factory=class_row(Unserved)) as cursor:
        return cursor.execute(UNSERVED, (waiting_for,)).fetchall()


def swept_steadily(operator: psycopg.Connection[Any]) -> bool:
    """Return whether a process runs maintenance at intervals, as cron does, and not only beside other work."""
    row = operator.execute("SELECT FROM leases WHERE name = 'steady sweeps' AND until > clock_timestamp()").fetchone()
    return row is not None
