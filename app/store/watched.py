"""Read what live streams show of a tenant's jobs, as its API role."""

from collections.abc import Collection
from datetime import timedelta
from uuid import UUID

from app.store.jobs import JOB, Reader, Row

OPEN_AT_MOST = 200
ENDED_AT_MOST = 20
TOGETHER = 500


def named(reader: Reader, job_ids: Collection[UUID]) -> list[Row]:
    """Return these jobs as `jobs.find` does, those that exist."""
    reader.execute(
        JOB
        + """
               j.result
        FROM background_jobs j LEFT JOIN background_job_progress p ON p.job_id = j.id
        WHERE j.id = ANY (%s)
        """,
        (list(job_ids),),
    )
    return reader.fetchall()


def of_user(reader: Reader, user_id: str) -> list[Row]:
    """Return a user's open jobs and those that ended within the last hour, oldest first; the newest of too many."""
    reader.execute(
        """
        SELECT id FROM background_jobs WHERE user_id = %s AND finished_at IS NULL ORDER BY id DESC LIMIT %s
        """,
        (user_id, OPEN_AT_MOST),
    )
    still_open = [row["id"] for row in reader.fetchall()]
    found = named(reader, [*still_open, *ended_within(reader, [user_id], timedelta(hours=1), limit=ENDED_AT_MOST)])
    return sorted(found, key=lambda row: row["id"])


def standings(reader: Reader, job_ids: Collection[UUID], users: Collection[str]) -> list[Row]:
    """Return id, revision, whether it is due and what it lacks, of these jobs and of the open ones of these users."""
    reader.execute(
        """
        SELECT j.id, j.revision + coalesce(p.revision, 0) AS revision, j.run_at <= clock_timestamp() AS due,
               CASE WHEN j.status = 'pending' THEN job_lacks(j.id) END AS lacks
        FROM background_jobs j LEFT JOIN background_job_progress p ON p.job_id = j.id
        WHERE j.id = ANY (%(jobs)s::uuid[] || ARRAY(
            SELECT id FROM background_jobs WHERE user_id = ANY (%(users)s) AND finished_at IS NULL
            ORDER BY id DESC LIMIT %(limit)s))
        """,
        {"jobs": list(job_ids), "users": list(users), "limit": TOGETHER},
    )
    return reader.fetchall()


def ended_within(reader: Reader, users: Collection[str], period: timedelta, *, limit: int = TOGETHER) -> list[UUID]:
    """Return the jobs of these users that ended so lately, the latest first, as their notifications tell.

    Notifications are found by their ids, for which there is an index: an id begins with its milliseconds.
    """
    reader.execute(
        """
        SELECT job_id FROM notifications
        WHERE user_id = ANY (%(users)s) AND id > encode(
            substring(int8send((extract(epoch FROM now() - %(period)s::interval) * 1000)::bigint) FROM 3)
            || decode('00000000000000000000', 'hex'), 'hex')::uuid
        ORDER BY id DESC LIMIT %(limit)s
        """,
        {"users": list(users), "period": period, "limit": limit},
    )
    return [row["job_id"] for row in reader.fetchall()]


def notifications_of(reader: Reader, job_ids: Collection[UUID]) -> list[Row]:
    """Return the notifications that tell of these jobs, with their users."""
    reader.execute(
        "SELECT id, job_id, user_id, kind, data, created_at, read_at FROM notifications WHERE job_id = ANY (%s)",
        (list(job_ids),),
    )
    return reader.fetchall()
