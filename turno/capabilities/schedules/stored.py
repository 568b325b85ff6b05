"""Read a tenant's schedules, and the statements that change them, as its API role."""

from datetime import datetime
from typing import LiteralString, cast

from turno.store.api.jobs import Reader, Row

# Returns verdict: created, changed, exists, unknown or full.
PUT: LiteralString = "SELECT {}.schedule_put(%s, %s, %s, %s, %s, %s) AS verdict"

# Pauses, or with a moment resumes from it on. Returns verdict: changed, same or unknown.
SWITCH: LiteralString = "SELECT {}.schedule_switch(%s, %s, %s) AS verdict"

# Returns whether the schedule existed.
REMOVE: LiteralString = "SELECT {}.schedule_remove(%s, %s) AS removed"

# With the last past moment that has a job, and the status of this job.
SCHEDULE: LiteralString = """
SELECT s.id, s.name, s.type, s.queue, s.priority, s.user_id, s.cron, s.every, s.zone, s.spread, s.missed, s.paused_at,
       s.problem, s.missed_runs, s.created_at, clock_timestamp() AS now, r.moment AS last_at, r.job_id AS last_job_id,
       r.status AS last_status
"""
LAST_RUN: LiteralString = """
FROM job_schedules s LEFT JOIN LATERAL (
    SELECT r.moment, r.job_id, j.status FROM job_schedule_runs r JOIN background_jobs j ON j.id = r.job_id
    WHERE r.schedule_id = s.id AND r.moment <= clock_timestamp() ORDER BY r.moment DESC LIMIT 1) AS r ON true
"""


def find(reader: Reader, name: str, user_id: str | None) -> Row | None:
    """Return a schedule with its payload, or None; with `user_id` only that user's."""
    reader.execute(
        SCHEDULE
        + ", s.payload"
        + LAST_RUN
        + "WHERE s.name = %(name)s AND (%(user)s::text IS NULL OR s.user_id = %(user)s)",
        {"name": name, "user": user_id},
    )
    return reader.fetchone()


def search(reader: Reader, user_id: str | None, *, after: str = "", limit: int = 50) -> list[Row]:
    """Return a page of schedules by name, without payloads; `after` is the last name of the page before."""
    reader.execute(
        SCHEDULE
        + LAST_RUN
        + """
        WHERE (%(user)s::text IS NULL OR s.user_id = %(user)s) AND s.name COLLATE "C" > %(after)s
        ORDER BY s.name COLLATE "C" LIMIT %(limit)s
        """,
        {"user": user_id, "after": after, "limit": limit},
    )
    return reader.fetchall()


def present(reader: Reader) -> datetime:
    """Return the database's time, by which every moment is decided."""
    reader.execute("SELECT clock_timestamp() AS now")
    return cast("datetime", cast("Row", reader.fetchone())["now"])
