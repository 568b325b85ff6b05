"""Records of the write-ahead log in the turns of a contestant: commits, row versions and bytes, counted exactly.

The statistics of the server count a session's work up to ten seconds later; the log has each record at once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg

if TYPE_CHECKING:
    from benchmarks.environment import BenchEnvironment

# A commit that waits for its flush: only flushed records can be read, and a server that does not sync flushes later.
FLUSH: LiteralString = "SELECT pg_logical_emit_message(true, 'benchmark', '')"
POSITION: LiteralString = "SELECT pg_current_wal_flush_lsn()::text"
RECORDS: LiteralString = """
SELECT "resource_manager/record_type", count, combined_size
FROM pg_get_wal_stats(%s::text::pg_lsn, pg_current_wal_flush_lsn(), true)
"""
NEW_VERSION = ("Heap/INSERT", "Heap/UPDATE", "Heap/HOT_UPDATE")
OLD_VERSION = ("Heap/DELETE", "Heap/UPDATE", "Heap/HOT_UPDATE")


def session_of_log(bench: BenchEnvironment) -> psycopg.Connection[Any]:
    """Return a session that reads the log of the server, from a database of its own."""
    session = psycopg.connect(bench.database("log"), autocommit=True)
    session.execute("CREATE EXTENSION pg_walinspect")
    session.execute("SET synchronous_commit = on")
    return session


@dataclass(slots=True)
class Turns:
    """The work of a contestant's turns, from the moment when all jobs wait until all have ended."""

    session: psycopg.Connection[Any]
    jobs: int = 0
    p99: list[float] = field(default_factory=list)
    records: Counter[str] = field(default_factory=Counter)
    size: int = 0
    position: str = ""

    def begin(self) -> None:
        """Remember the end of the log."""
        self.session.execute(FLUSH)
        (self.position,) = self.session.execute(POSITION).fetchone() or ("",)

    def end(self, jobs: int, p99: float) -> None:
        """Count the records since `begin`; `p99` is of the milliseconds from a job's start to its durable end."""
        self.session.execute(FLUSH)
        self.records["Transaction/COMMIT"] -= 1  # of FLUSH itself
        for record, count, size in self.session.execute(RECORDS, [self.position]):
            self.records[record.removesuffix("+INIT")] += int(count)
            self.size += int(size)
        self.jobs += jobs
        self.p99.append(p99)

    def per_job(self) -> dict[str, float]:
        """Return the figures of a job."""
        return {
            "WAL bytes": self.size / self.jobs,
            "commits": self.records["Transaction/COMMIT"] / self.jobs,
            "row versions": sum(self.records[record] for record in NEW_VERSION) / self.jobs,
            "dead tuples": sum(self.records[record] for record in OLD_VERSION) / self.jobs,
            "p99 of a job, ms": max(self.p99),
        }
