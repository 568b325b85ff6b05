"""The row of a file, and the rules of file names."""

import re
from dataclasses import dataclass
from uuid import UUID

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
