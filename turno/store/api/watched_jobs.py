"""Read a tenant's jobs for live streams, as the tenant's API role."""

from collections.abc import Collection
from datetime import timedelta
from typing import LiteralString
from uuid import UUID

from turno.store.api.jobs import IN_BRIEF, JOB, Reader, Row, attributes

OPEN_AT_MOST = 200
ENDED_AT_MOST = 20
TOGETHER = 500


def named(reader: Reader, job_ids: Collection[UUID]) -> list[Row]:
    """Return the existing jobs of these ids as `jobs.find` does, without long results and errors."""
    return reader.execute(
        JOB
        + attributes()
        + IN_BRIEF
        + """
               CASE WHEN octet_length(j.result::text) <= 4096 THEN j.result END AS result
        FROM background_jobs j LEFT JOIN background_job_progress p ON p.job_id = j.id
        WHERE j.id = ANY (%s)
        """,
        (list(job_ids),),
    ).fetchall()


def of_user(reader: Reader, user_id: str | None) -> list[Row]:
    """Return a user's open jobs and the jobs that ended within the last hour, oldest first, limited to the newest.

    None selects the jobs of all users.
    """
    users = None if user_id is None else [user_id]
    rows = [
        *open_jobs(reader, users, OPEN_AT_MOST),
        *ended_within(reader, users, timedelta(hours=1), limit=ENDED_AT_MOST),
    ]
    return sorted(named(reader, rows), key=lambda row: row["id"])


def open_jobs(reader: Reader, users: Collection[str] | None, limit: int) -> list[UUID]:
    """Return the newest open jobs of these users, or of all users for None."""
    # Gathered first: in the order of their ids the newest ended ones would be read and passed over.
    reader.execute(
        """
        WITH open AS MATERIALIZED (SELECT id FROM background_jobs WHERE finished_at IS NULL
        """  # noqa: S608 - literals only
        + _among(users)
        + ") SELECT id FROM open ORDER BY id DESC LIMIT %(limit)s",
        {"users": list(users or ()), "limit": limit},
    )
    return [row["id"] for row in reader.fetchall()]


def standings(reader: Reader, job_ids: Collection[UUID], users: Collection[str] | None) -> list[Row]:
    """Return id, revision, `due` and `lacks` of these jobs and of the open jobs of these users."""
    return reader.execute(
        """
        SELECT j.id, j.revision + coalesce(p.revision, 0) AS revision, j.run_at <= clock_timestamp() AS due,
               CASE WHEN j.status = 'pending' THEN {}.job_lacks(j.id) END AS lacks
        FROM background_jobs j LEFT JOIN background_job_progress p ON p.job_id = j.id
        WHERE j.id = ANY (%s)
        """,
        (list({*job_ids, *open_jobs(reader, users, TOGETHER)}),),
    ).fetchall()


def ended_within(
    reader: Reader, users: Collection[str] | None, period: timedelta, *, limit: int = TOGETHER
) -> list[UUID]:
    """Return the jobs of these users that ended within the last `period`, without parts, the latest first."""
    reader.execute(
        "SELECT id FROM background_jobs WHERE finished_at > now() - %(period)s::interval AND awaited_by IS NULL"  # noqa: S608 - literals only
        + _among(users)
        + " ORDER BY finished_at DESC LIMIT %(limit)s",
        {"users": list(users or ()), "period": period, "limit": limit},
    )
    return [row["id"] for row in reader.fetchall()]


def _among(users: Collection[str] | None) -> LiteralString:
    """Return the condition on the user; two statements, so that each has its own plan."""
    return "" if users is None else " AND user_id = ANY (%(users)s)"


def notifications_of(reader: Reader, job_ids: Collection[UUID]) -> list[Row]:
    """Return the notifications about these jobs, with their users."""
    return reader.execute(
        "SELECT id, job_id, user_id, kind, data, created_at, read_at FROM notifications WHERE job_id = ANY (%s)",
        (list(job_ids),),
    ).fetchall()
