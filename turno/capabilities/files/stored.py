"""Read files and write uploads, as the tenant's API role."""

from typing import Any, LiteralString
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from turno.capabilities.files.kept_file import KeptFile

Reader = psycopg.Cursor[dict[str, Any]]

# Returns file_id and verdict: accepted, or full.
BEGIN: LiteralString = "SELECT file_id, verdict FROM {}.file_begin(%s, %s, %s, %s, %s, %s, %s, %s)"

# Returns verdict and received: stored, complete, there, length or unknown.
PUT: LiteralString = "SELECT verdict, received FROM {}.file_put(%s, %s, %s, %b, %s)"

_COLUMNS: LiteralString = """
SELECT id, name, media_type, size, piece_bytes, user_id, job_id, complete_at IS NOT NULL AS complete, in_folder
FROM job_files
"""


def find(reader: Reader, file_id: UUID, user: str | None) -> KeptFile | None:
    """Return a file that has not expired, or None; with `user` only that user's."""
    with reader.connection.cursor(row_factory=class_row(KeptFile)) as cursor:
        cursor.execute(
            _COLUMNS + "WHERE id = %(file)s AND (%(user)s::text IS NULL OR user_id = %(user)s)"
            " AND (expires_at IS NULL OR expires_at > clock_timestamp())",
            {"file": file_id, "user": user},
        )
        return cursor.fetchone()


def written_by(reader: Reader, job_id: UUID) -> list[KeptFile]:
    """Return the files that a job wrote, in their order, without the uploads that it read."""
    with reader.connection.cursor(row_factory=class_row(KeptFile)) as cursor:
        cursor.execute(
            _COLUMNS + "WHERE job_id = %s AND NOT uploaded AND complete_at IS NOT NULL ORDER BY id", (job_id,)
        )
        return cursor.fetchall()


def piece(reader: Reader, file_id: UUID, n: int) -> bytes:
    """Return one piece of a file; raises LookupError if the file was deleted since."""
    with reader.connection.cursor(binary=True) as cursor:
        row = cursor.execute("SELECT data FROM job_file_pieces WHERE file_id = %s AND n = %s", (file_id, n)).fetchone()
    if row is None:
        raise LookupError(f"piece {n} of a file is not kept")
    return bytes(row[0])
