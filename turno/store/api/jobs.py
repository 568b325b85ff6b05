"""Read a tenant's jobs, as its API role."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, LiteralString
from uuid import UUID

import psycopg

from turno.capability import installed, job_filters, merged

Row = dict[str, Any]
Reader = psycopg.Cursor[Row]


LARGEST_SHOWN = 8_000  # bytes of a stored payload, after compression


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs to list, newest first; `before` is the last id of the page before."""

    user_id: str | None = None
    statuses: Sequence[str] = ()
    outcomes: Sequence[str] = ()
    types: Sequence[str] = ()
    needs_review: bool = False  # only jobs that wait for a review
    part_of: UUID | None = None  # only the parts of this job
    parts: bool = True  # also parts of other jobs
    correlation_id: str | None = None  # or a trace's id
    text: str | None = None  # in the stored payload, ignoring case
    made_from: UUID | None = None  # the bounds of ids that say when a job was made
    made_before: UUID | None = None
    filters: Mapping[str, Sequence[str]] = field(default_factory=dict)  # of capabilities, by name
    before: UUID | None = None
    limit: int = 50


_NAMES = [each.name for each in fields(JobFilter) if each.name != "filters"]
_filters = cache(job_filters)

# run_at is NULL where it is infinite, that is for a job that waits until a person decides: Python has no such date.
# run_seconds adds up the attempts, so that waiting for a retry does not count as running. `lacks` names the missing
# worker, queue or type of a job that no worker has claimed for too long.
JOB: LiteralString = """
SELECT j.id, j.type, j.version, j.queue, j.status, j.reason, j.priority, j.user_id, j.attempt, j.errors,
       j.crashes, j.max_attempts, CASE WHEN j.status = 'pending' THEN {}.job_lacks(j.id) END AS lacks,
       CASE WHEN isfinite(j.run_at) THEN j.run_at END AS run_at, j.expires_at, j.created_at,
       j.started_at, j.finished_at, j.cancel_requested_at, j.parent_id, j.successor_id, j.correlation_id,
       j.trace_context, j.revision,
       p.done, p.failed, p.total, p.message, coalesce(p.revision, 0) AS progress_revision, clock_timestamp() AS now,
       (SELECT extract(epoch FROM sum(coalesce(a.finished_at, clock_timestamp()) - a.started_at))::float8
        FROM background_job_attempts a WHERE a.job_id = j.id) AS run_seconds,
       j.origin,
       (SELECT jsonb_build_object('total', count(*), 'ended', count(o.finished_at),
                                  'failed', count(*) FILTER (WHERE o.status IN ('failed', 'cancelled')))
        FROM background_jobs o WHERE o.awaited_by = j.id HAVING count(*) > 0) AS parts,
"""
# For many jobs in one query: limits each row to a few kB.
IN_BRIEF: LiteralString = """
       CASE WHEN octet_length(j.error::text) <= 2048 THEN j.error
            WHEN j.error IS NOT NULL THEN jsonb_build_object(
                'class', left(j.error->>'class', 100), 'message', left(j.error->>'message', 500), 'traceback', NULL,
                'for_users', j.error->'for_users', 'lasting', j.error->'lasting',
                'reference', left(j.error->>'reference', 20)) END AS error,
"""


@cache
def attributes() -> LiteralString:
    """Return the column with the attributes that capabilities add to a job, as an object without nulls."""
    declared = merged("job attribute", (capability.job_attributes for capability in installed()))
    pairs = ", ".join(f"'{name}', {expression}" for name, expression in declared.items())
    return f" jsonb_strip_nulls(jsonb_build_object({pairs})) AS attributes, "


def find(reader: Reader, job_id: UUID, user_id: str | None) -> Row | None:
    """Return one job with progress, payload (None if large) and result, or None; with `user_id` only that user's."""
    return reader.execute(
        JOB
        + attributes()
        + """
               j.error, j.result, CASE WHEN pg_column_size(j.payload) <= %(largest)s THEN j.payload END AS payload
        FROM background_jobs j LEFT JOIN background_job_progress p ON p.job_id = j.id
        WHERE j.id = %(job)s AND (%(user)s::text IS NULL OR j.user_id = %(user)s)
        """,
        {"job": job_id, "user": user_id, "largest": LARGEST_SHOWN},
    ).fetchone()


def payload(reader: Reader, job_id: UUID) -> Any:
    """Return the payload of a job, however large."""
    row = reader.execute("SELECT payload FROM background_jobs WHERE id = %s", (job_id,)).fetchone()
    return row and row["payload"]


def payloads(reader: Reader, job_ids: Sequence[UUID]) -> dict[UUID, Any]:
    """Return the payloads of these jobs; large payloads, stored in TOAST, are not read."""
    reader.execute(
        "SELECT id, payload FROM background_jobs WHERE id = ANY (%s) AND pg_column_size(payload) <= %s",
        (list(job_ids), LARGEST_SHOWN),
    )
    return {row["id"]: row["payload"] for row in reader}


def search(reader: Reader, wanted: JobFilter) -> list[Row]:
    """Return a page of jobs, newest first, without payloads, results and long errors."""
    filters = wanted.filters
    given = {**filters, **{name: getattr(wanted, name) for name in _NAMES}}
    return reader.execute(
        JOB
        + attributes()
        + IN_BRIEF
        + """
               NULL AS result
        FROM background_jobs j LEFT JOIN background_job_progress p ON p.job_id = j.id
        WHERE (%(user_id)s::text IS NULL OR j.user_id = %(user_id)s)
          AND (%(statuses)s::text[] = '{}' OR j.status = ANY (%(statuses)s::text[]))
          AND (%(outcomes)s::text[] = '{}'
               OR j.finished_at IS NOT NULL
                  AND {}.outcome_of(j.status, j.reason, p.done, p.failed) = ANY (%(outcomes)s::text[]))
          AND (%(types)s::text[] = '{}' OR j.type = ANY (%(types)s::text[]))
          AND (NOT %(needs_review)s OR j.in_doubt IS NOT NULL)
          AND (%(part_of)s::uuid IS NULL OR j.awaited_by = %(part_of)s)
          AND (%(parts)s OR j.awaited_by IS NULL)
          AND (%(before)s::uuid IS NULL OR j.id < %(before)s)
          AND (%(made_from)s::uuid IS NULL OR j.id >= %(made_from)s)
          AND (%(made_before)s::uuid IS NULL OR j.id < %(made_before)s)
          AND (%(correlation_id)s::text IS NULL OR j.correlation_id = %(correlation_id)s
               OR substr(j.trace_context, 4, 32) = %(correlation_id)s)
          AND (%(text)s::text IS NULL OR position(lower(%(text)s) IN lower(j.payload::text)) > 0)
        """
        + "".join(f" AND ({_filters()[name].api})" for name in filters)
        + " ORDER BY j.id DESC LIMIT %(limit)s",
        {name: list(value) if isinstance(value, tuple | list) else value for name, value in given.items()},
    ).fetchall()


def find_by_key(reader: Reader, user_id: str, job_type: str, key: str) -> UUID | None:
    """Return the job that an idempotency key identifies now, or None."""
    row = reader.execute(
        "SELECT id FROM background_jobs WHERE user_id = %s AND type = %s AND idempotency_key = %s"
        " AND (finished_at IS NULL OR unique_while IS DISTINCT FROM 'open')",
        (user_id, job_type, key),
    ).fetchone()
    return row["id"] if row else None


def exists(reader: Reader, job_id: UUID, user_id: str | None) -> bool:
    """Say whether there is such a job; with `user_id` only that user's."""
    return (
        reader.execute(
            "SELECT FROM background_jobs WHERE id = %(job)s AND (%(user)s::text IS NULL OR user_id = %(user)s)",
            {"job": job_id, "user": user_id},
        ).rowcount
        == 1
    )


def attempts(reader: Reader, job_id: UUID, *, after: int = 0, limit: int = 1000) -> list[Row]:
    """Return a page of a job's attempts in order; `after` is the last attempt's number of the page before."""
    return reader.execute(
        """
        SELECT attempt, worker, started_at, finished_at, outcome, error
        FROM background_job_attempts WHERE job_id = %s AND attempt > %s ORDER BY attempt LIMIT %s
        """,
        (job_id, after, limit),
    ).fetchall()


def items(reader: Reader, job_id: UUID, state: str | None, after: str, limit: int) -> list[Row]:
    """Return a page of the ledgers of a job and its parts by their keys, 9 before 40; `after` ended the page before."""
    # Keys that differ only in the number at their end are in its order: a longer number is a larger one.
    return reader.execute(
        """
        SELECT key, state, ref, error, at FROM background_job_items
        WHERE job_id IN (SELECT %(job)s UNION ALL SELECT id FROM background_jobs WHERE awaited_by = %(job)s)
          AND (%(state)s::text IS NULL OR state = %(state)s)
          AND (rtrim(key, '0123456789') COLLATE "C", length(key), key COLLATE "C")
              > (rtrim(%(after)s, '0123456789'), length(%(after)s), %(after)s)
        ORDER BY rtrim(key, '0123456789') COLLATE "C", length(key), key COLLATE "C" LIMIT %(limit)s
        """,
        {"job": job_id, "state": state, "after": after, "limit": limit},
    ).fetchall()


def items_to_retry(reader: Reader, job_ids: Sequence[UUID]) -> dict[UUID, int]:
    """Return the number of items that a retry does again, of these jobs and their parts."""
    reader.execute(
        """
        SELECT o.job_id, count(*) AS items FROM (
            SELECT id AS job_id, id AS part FROM unnest(%(jobs)s::uuid[]) AS id UNION ALL
            SELECT awaited_by, id FROM background_jobs WHERE awaited_by = ANY (%(jobs)s)) AS o
        JOIN background_job_items i ON i.job_id = o.part AND i.state = 'failed' AND NOT i.error ? 'lasting'
        GROUP BY o.job_id
        """,
        {"jobs": list(job_ids)},
    )
    return {row["job_id"]: row["items"] for row in reader}


def events(reader: Reader, job_id: UUID, *, after: int = 0, limit: int = 1000) -> list[Row]:
    """Return a page of a job's transitions in order; `after` is the last one's id of the page before."""
    return reader.execute(
        """
        SELECT id, old_status, new_status, attempt, reason, at FROM background_job_events
        WHERE job_id = %s AND id > %s ORDER BY id LIMIT %s
        """,
        (job_id, after, limit),
    ).fetchall()


def logs(reader: Reader, job_id: UUID, *, after: tuple[int, int] = (0, 0), limit: int = 1000) -> list[Row]:
    """Return a page of the log lines of a job's attempts, in order; `after` is (attempt, number) of the last line."""
    return reader.execute(
        """
        SELECT attempt, number, at, level, logger, line FROM background_job_logs
        WHERE job_id = %s AND (attempt, number) > (%s, %s) ORDER BY attempt, number LIMIT %s
        """,
        (job_id, *after, limit),
    ).fetchall()


def newest_logs(reader: Reader, job_id: UUID, limit: int) -> list[Row]:
    """Return the last lines that a job's attempts logged, in order."""
    return reader.execute(
        """
        SELECT attempt, number, at, level, logger, line FROM background_job_logs
        WHERE job_id = %s ORDER BY attempt DESC, number DESC LIMIT %s
        """,
        (job_id, limit),
    ).fetchall()[::-1]


def dead_letters(reader: Reader, *, replayed: bool, before: UUID | None, limit: int) -> list[Row]:
    """Return a page of dead letters, newest job first, without payloads."""
    return reader.execute(
        """
        SELECT job_id, type, version, user_id, cause, error, attempts, died_at, replayed_at, replayed_as
        FROM background_jobs_dead_letter
        WHERE (replayed_at IS NOT NULL) = %(replayed)s AND (%(replayed)s OR discarded_at IS NULL)
          AND (%(before)s::uuid IS NULL OR job_id < %(before)s)
        ORDER BY job_id DESC LIMIT %(limit)s
        """,
        {"replayed": replayed, "before": before, "limit": limit},
    ).fetchall()


def is_dead_letter(reader: Reader, job_id: UUID) -> bool:
    """Say whether this job is a dead letter, replayed or not."""
    return reader.execute("SELECT FROM background_jobs_dead_letter WHERE job_id = %s", (job_id,)).rowcount == 1
