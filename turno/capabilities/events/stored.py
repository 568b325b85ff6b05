"""The events of a tenant, as its API role; the subscriptions of the installation, as the operator."""

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import psycopg

Reader = psycopg.Cursor[dict[str, Any]]
Operator = psycopg.Connection[Any]


class Page(NamedTuple):
    """A page of events: at most `limit` that follow the event `after`, in the order of the query."""

    after: UUID | None
    limit: int


def listed(reader: Reader, name: str | None, page: Page) -> list[dict[str, Any]]:
    """Return a page of events, the newest first, each with its jobs by type; `after` ends the page before."""
    reader.execute(
        """
        SELECT e.id, e.name, e.key, e.data, e.user_id, e.published_at,
               coalesce((SELECT jsonb_object_agg(j.type, j.job_id) FROM background_event_jobs j
                         WHERE j.event_id = e.id), '{}') AS jobs
        FROM background_events e
        WHERE (%(name)s::text IS NULL OR e.name = %(name)s) AND (%(after)s::uuid IS NULL OR
            (e.published_at, e.id) < (SELECT a.published_at, a.id FROM background_events a WHERE a.id = %(after)s))
        ORDER BY e.published_at DESC, e.id DESC LIMIT %(limit)s
        """,
        {"name": name, "after": page.after, "limit": page.limit},
    )
    return reader.fetchall()


class Replay(NamedTuple):
    """The events to replay for a job type: of a name or of all its names; `missing` leaves out events with a job."""

    job_type: str
    name: str | None
    since: datetime
    until: datetime
    missing: bool = False


def replay(reader: Reader, wanted: Replay, page: Page, *, backend: str, dry_run: bool) -> tuple[int, UUID | None]:
    """Create the jobs of a page of events, in their order; returns how many, and the last event."""
    reader.execute(
        "SELECT replayed, last_id FROM {}.event_replay(%s, %s, %s, %s, %s, %s, %s, %s, %s)",
        (*wanted[:4], *page, backend, wanted.missing, dry_run),
    )
    (row,) = reader.fetchall()
    return row["replayed"], row["last_id"]


def subscriptions(operator: Operator) -> list[tuple[Any, ...]]:
    """Return (event, type, ordered, seen_at) of each subscription."""
    return operator.execute(
        "SELECT event, type::text, ordered, seen_at FROM turno.subscriptions ORDER BY event, type, ordered"
    ).fetchall()


def unsubscribe(operator: Operator, event: str, job_type: str) -> int:
    """Remove a subscription and return the number of its rows; a running release that declares it adds it again."""
    return operator.execute(
        "DELETE FROM turno.subscriptions WHERE event = %s AND type = %s", (event, job_type)
    ).rowcount
