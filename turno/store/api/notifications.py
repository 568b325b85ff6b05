"""What a user is told when a job ends."""

from typing import Any, LiteralString
from uuid import UUID

import psycopg

# Returns found: whether this user has such a notification.
READ: LiteralString = "SELECT {}.notification_read(%s, %s) AS found"


def search(
    reader: psycopg.Cursor[dict[str, Any]], user_id: str, *, unread: bool, before: UUID | None, limit: int
) -> list[dict[str, Any]]:
    """Return a page of a user's notifications, newest first."""
    reader.execute(
        """
        SELECT id, job_id, kind, data, created_at, read_at FROM notifications
        WHERE user_id = %(user)s AND (NOT %(unread)s OR read_at IS NULL)
          AND (%(before)s::uuid IS NULL OR id < %(before)s)
        ORDER BY id DESC LIMIT %(limit)s
        """,
        {"user": user_id, "unread": unread, "before": before, "limit": limit},
    )
    return reader.fetchall()


def job_of(reader: psycopg.Cursor[dict[str, Any]], notification: UUID) -> UUID:
    """Return the job that a notification tells of, which its user has just marked as read."""
    reader.execute("SELECT job_id FROM notifications WHERE id = %s", (notification,))
    (row,) = reader.fetchall()
    job: UUID = row["job_id"]
    return job


def count_unread(reader: psycopg.Cursor[dict[str, Any]], user_id: str) -> int:
    """Return how many notifications a user has not read."""
    reader.execute("SELECT count(*) AS n FROM notifications WHERE user_id = %s AND read_at IS NULL", (user_id,))
    row = reader.fetchone()
    return int(row["n"]) if row else 0
