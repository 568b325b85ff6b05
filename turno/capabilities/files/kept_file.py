"""A kept file: its row, the statements of the tenant's API role, and the rules of file names."""

import re
from dataclasses import dataclass
from typing import Any, LiteralString
from uuid import UUID

import psycopg
from psycopg.rows import class_row

PIECE_BYTES = 262_144  # of a file that a job writes; a process holds one piece of it
LARGEST_FILE_MB = 64  # in the database; the table has the same limit
LONGEST_NAME = 120
# Includes every character that the table's [[:cntrl:]] matches in any locale.
FORBIDDEN = re.compile(r'[\x00-\x1f\x7f-\x9f\u2028\u2029/\\:*?"<>|]')
MEDIA_TYPES = {
    "csv": "text/csv",
    "txt": "text/plain",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}

Reader = psycopg.Cursor[dict[str, Any]]

# Returns file_id and verdict: accepted, or full.
BEGIN: LiteralString = "SELECT file_id, verdict FROM {}.file_begin(%s, %s, %s, %s, %s, %s, %s, %s)"

# Returns verdict and received: stored, complete, there, length or unknown.
PUT: LiteralString = "SELECT verdict, received FROM {}.file_put(%s, %s, %s, %b, %s)"

_COLUMNS: LiteralString = """
SELECT id, name, media_type, size, piece_bytes, user_id, job_id, complete_at IS NOT NULL AS complete, in_folder
FROM job_files
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFile:
    """One file; a job may read an upload once it is `complete`."""

    id: UUID
    name: str
    media_type: str
    size: int
    piece_bytes: int
    user_id: str
    job_id: UUID | None
    complete: bool
    in_folder: bool


def name_problem(name: str) -> str | None:
    """Return the problem of a file's name, or None.

    The name is for people and for the browser's download dialogue; no file is opened by it.
    """
    if not 1 <= len(name) <= LONGEST_NAME:
        return f"must have 1 to {LONGEST_NAME} characters"
    if FORBIDDEN.search(name):
        return 'must be the name of a file, without folders, control characters and any of / \\ : * ? " < > |'
    if name.startswith((".", " ")):
        return "must not start with a dot or a space"
    return None


def media_type_of(name: str) -> str:
    """Return the media type of a file name's extension; application/octet-stream if unknown."""
    return MEDIA_TYPES.get(name.rpartition(".")[2].lower(), "application/octet-stream")


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
