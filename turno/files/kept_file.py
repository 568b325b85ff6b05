"""What is known of a file beside its bytes."""

import re
from dataclasses import dataclass
from uuid import UUID

PIECE_BYTES = 262_144  # of a file that a job writes, and as much of it is in memory
LARGEST_FILE_MB = 64  # in the database, as the table's own limit
LONGEST_NAME = 120
# What the table's [[:cntrl:]] matches in any locale, too.
FORBIDDEN = re.compile(r'[\x00-\x1f\x7f-\x9f\u2028\u2029/\\:*?"<>|]')
MEDIA_TYPES = {
    "csv": "text/csv",
    "txt": "text/plain",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFile:
    """One file; an upload may be read when it is `complete`."""

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
    """Say what is wrong with a file's name; None if it is one.

    No file is ever opened by it: it is what people see, and what their browser may save a download as.
    """
    if not 1 <= len(name) <= LONGEST_NAME:
        return f"must have 1 to {LONGEST_NAME} characters"
    if FORBIDDEN.search(name):
        return 'must be the name of a file, without folders, control characters and any of / \\ : * ? " < > |'
    if name.startswith((".", " ")):
        return "must not begin with a dot or a space"
    return None


def media_type_of(name: str) -> str:
    """Return the type that a file's name stands for, such as text/csv; what is not known is bytes."""
    return MEDIA_TYPES.get(name.rpartition(".")[2].lower(), "application/octet-stream")
