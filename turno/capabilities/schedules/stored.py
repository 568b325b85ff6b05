"""Read, save, pause, resume and remove a tenant's schedules, as its API role; the database's clock decides moments."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString, cast

import psycopg
from psycopg.types.json import Jsonb

from turno.capabilities.schedules.recurring_job import RecurringJob, stored_rule
from turno.store.api.jobs import Reader, Row
from turno.store.statements import named_refusals
from turno.tenancy.identity.session import as_api, call_as_api
from turno.tenancy.identity.tenant import Tenant

MOST_SCHEDULES = 1000  # of a tenant
Connection = psycopg.Connection[Any]

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


@dataclass(frozen=True, slots=True)
class Schedules:
    """The schedules of a tenant; `only` restricts changes to this user's schedules, None for an operator."""

    connection: Connection
    tenant: Tenant
    only: str | None = None
    noun = "schedule"

    @property
    def slug(self) -> str:
        """Return the tenant's slug."""
        return self.tenant.slug

    def find(self, name: str) -> Row | None:
        """Return a schedule with its payload, or None."""
        with as_api(self.connection, self.tenant) as reader:
            return find(reader, name, self.only)

    def save(self, wanted: RecurringJob, *, create: bool = True, replace: bool = True) -> str:
        """Save a schedule: created, changed, exists, unknown or full, as `schedule_put` returns it.

        Raises InvalidRule, and LimitExceeded if a value in it is too large to be stored.
        """
        rule = wanted.rule(self.tenant.slug)
        with as_api(self.connection, self.tenant) as reader:
            now = present(reader)
        with named_refusals():
            given = Jsonb(wanted.columns), rule.next_after(now), self.only, create, replace, MOST_SCHEDULES
            return str(call_as_api(self.connection, self.tenant, PUT, given)["verdict"])

    def switch(self, name: str, *, on: bool) -> bool:
        """Resume the schedule from its next moment on, or pause it; returns whether it exists."""
        next_at = None
        if on:
            if (row := self.find(name)) is None:
                return False
            next_at = stored_rule(row, self.tenant.slug).next_after(row["now"])
        verdict = call_as_api(self.connection, self.tenant, SWITCH, (name, next_at, self.only))["verdict"]
        return str(verdict) != "unknown"

    def remove(self, name: str) -> bool:
        """Remove it; false if there was none. Its jobs stay, except jobs for future moments."""
        return bool(call_as_api(self.connection, self.tenant, REMOVE, (name, self.only))["removed"])
