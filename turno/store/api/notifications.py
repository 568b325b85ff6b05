"""The notifications of users about the ends of their jobs."""

from typing import Any, LiteralString
from uuid import UUID

import psycopg

# Returns the job of the notification; None if this user has no such notification.
READ: LiteralString = "SELECT {}.notification_read(%s, %s) AS job_id"
# Each source has its own limit: the query then reads the newest rows in index order, however long the table.
_PAGE: LiteralString = """
    (SELECT id, job_id, kind, data, created_at, read_at FROM {source}
     WHERE user_id = %(user)s AND (NOT %(unread)s OR read_at IS NULL)
       AND (%(before)s::uuid IS NULL
            OR (created_at, id) < ((SELECT created_at FROM notifications WHERE id = %(before)s), %(before)s))
     ORDER BY created_at DESC, id DESC LIMIT %(limit)s)
"""


def search(
    reader: psycopg.Cursor[dict[str, Any]], user_id: str, *, unread: bool, before: UUID | None, limit: int
) -> list[dict[str, Any]]:
    """Return a page of a user's notifications, newest first."""
    return reader.execute(
        _PAGE.format(source="notifications_of_ends")
        + " UNION ALL "
        + _PAGE.format(source="notifications_of_reviews")
        + " ORDER BY created_at DESC, id DESC LIMIT %(limit)s",
        {"user": user_id, "unread": unread, "before": before, "limit": limit},
    ).fetchall()


def count_unread(reader: psycopg.Cursor[dict[str, Any]], user_id: str) -> int:
    """Return how many notifications a user has not read."""
    row = reader.execute(
        "SELECT count(*) AS n FROM notifications WHERE user_id = %s AND read_at IS NULL", (user_id,)
    ).fetchone()
    return int(row["n"]) if row else 0
