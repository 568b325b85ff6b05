"""Read a tenant's events, and give them to a subscriber again, as its API role."""

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import psycopg

Reader = psycopg.Cursor[dict[str, Any]]


class Page(NamedTuple):
    """Which events: those that follow this one, in the order of the question."""

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


def replay(
    reader: Reader, job_type: str, since: datetime, until: datetime, page: Page, *, backend: str, dry_run: bool
) -> tuple[int, UUID | None]:
    """Give a type a page of events of its names again, in their order; returns how many, and the last."""
    reader.execute(
        "SELECT replayed, last_id FROM event_replay(%s, %s, %s, %s, %s, %s, %s)",
        (job_type, since, until, *page, backend, dry_run),
    )
    (row,) = reader.fetchall()
    return row["replayed"], row["last_id"]
