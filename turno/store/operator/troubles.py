"""Read what is wrong with an installation that runs: for whom, since when, and what to type."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import psycopg
from psycopg.rows import namedtuple_row

from turno.jobs.lacking import lacking

UNSERVED_FOR = timedelta(minutes=1)
LONG_WAIT = timedelta(minutes=5)
RECENT = timedelta(hours=1)


class Trouble(NamedTuple):
    """One thing that is wrong, as a sentence without its full stop; `since` is None where nothing tells it."""

    sentence: str
    since: datetime | None
    command: str


def troubles(operator: psycopg.Connection[Any], dead_after: timedelta) -> list[Trouble]:
    """Return what is wrong, what keeps most jobs from running first."""
    with operator.transaction(), operator.cursor(row_factory=namedtuple_row) as cursor:
        return [
            *_unserved(cursor),
            *_silent_workers(cursor, dead_after),
            *_no_maintenance(cursor),
            *_long_waits(cursor),
            *_failures(cursor),
            *_parked(cursor),
        ]


def _unserved(cursor: psycopg.Cursor[Any]) -> Iterator[Trouble]:
    start = {"pool": "turno pool", "rabbitmq": "turno consume", "exec": "turno maintain"}
    for one in cursor.execute("SELECT * FROM unserved(%s)", (UNSERVED_FOR,)):
        why = lacking(one.lacks, job_type=one.type, version=one.version, queue=one.queue)
        many = f"{one.waiting} jobs of {one.tenants} tenants wait for {one.backend}"
        yield Trouble(f"{why}: {many}", one.oldest, start[one.backend])


def _silent_workers(cursor: psycopg.Cursor[Any], dead_after: timedelta) -> Iterator[Trouble]:
    cursor.execute(
        """
        SELECT host, pid, alive_at FROM workers WHERE alive_at < clock_timestamp() - %s::interval ORDER BY alive_at
        """,
        (dead_after,),
    )
    for worker in cursor:
        what = f"the worker {worker.pid} of {worker.host} is silent, and its jobs were not taken from it"
        yield Trouble(what, worker.alive_at, "turno cleanup")


def _no_maintenance(cursor: psycopg.Cursor[Any]) -> Iterator[Trouble]:
    cursor.execute("SELECT until, until > clock_timestamp() AS steady FROM leases WHERE name = 'steady sweeps'")
    last = cursor.fetchone()
    if not (last and last.steady):
        what = "no process runs maintenance by itself: retries and delayed jobs start after the next job only"
        yield Trouble(what, last and last.until, "turno maintain")


def _long_waits(cursor: psycopg.Cursor[Any]) -> Iterator[Trouble]:
    cursor.execute(
        """
        SELECT slug, waiting, paused_at, clock_timestamp() - oldest_wait AS since
        FROM fairness WHERE oldest_wait > %s::interval ORDER BY oldest_wait DESC
        """,
        (LONG_WAIT,),
    )
    for tenant in cursor:
        why = "is paused" if tenant.paused_at else "waits for its turn"
        yield Trouble(f"{tenant.slug} {why} with {tenant.waiting} jobs", tenant.since, "turno tenant shares")


def _failures(cursor: psycopg.Cursor[Any]) -> Iterator[Trouble]:
    cursor.execute(
        """
        SELECT t.slug, o.type, count(*) FILTER (WHERE o.outcome = 'failed') AS failed, count(*) AS ended,
               min(o.at) FILTER (WHERE o.outcome = 'failed') AS since
        FROM outcomes o JOIN tenants t ON t.id = o.tenant_id
        WHERE o.at > clock_timestamp() - %s::interval
        GROUP BY t.slug, o.type HAVING count(*) FILTER (WHERE o.outcome = 'failed') > 0
        ORDER BY failed DESC, t.slug, o.type
        """,
        (RECENT,),
    )
    for one in cursor:
        what = f"{one.failed} of {one.ended} jobs {one.type} of {one.slug} that ended in the last hour failed"
        yield Trouble(what, one.since, f"turno jobs list --tenant {one.slug} --status failed --type {one.type}")


def _parked(cursor: psycopg.Cursor[Any]) -> Iterator[Trouble]:
    cursor.execute("SELECT slug, jobs FROM jobs_in_review ORDER BY jobs DESC, slug")
    for tenant in cursor:
        what = f"{tenant.jobs} jobs of {tenant.slug} wait until a person says whether an outside effect happened"
        yield Trouble(what, None, f"turno jobs list --tenant {tenant.slug} --needs-review")
