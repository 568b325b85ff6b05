"""`job.files`: `open(...)` reads an upload, `create(...)` writes a file, both as streams."""

import io
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, LiteralString
from uuid import UUID

from psycopg.rows import class_row, tuple_row

from turno.capabilities.files.folder import Folder
from turno.capabilities.files.kept_file import LARGEST_FILE_MB, PIECE_BYTES, KeptFile, media_type_of
from turno.errors import PermanentFailure
from turno.jobs.job_context import JobContext
from turno.runner.context import AttemptContext, attempt_of
from turno.store.statements import qualified, under_claim

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

LARGEST_FILE = LARGEST_FILE_MB * 1_048_576  # bytes
TAKE: LiteralString = """
SELECT id, name, media_type, size, piece_bytes, user_id, job_id, true AS complete, in_folder
FROM {}.file_take(%s, %s, %s)
"""


class FileGone(PermanentFailure):
    """The file was deleted, or belongs to another user; upload it again."""


class FileTooLarge(PermanentFailure):
    """The file would exceed the limit; write less into one file."""


def files(job: JobContext) -> "JobFiles":
    """Return the files of an attempt; raises PermanentFailure within a request."""
    return JobFiles(attempt_of(job, "a file"))


class JobFiles:
    """The files that an attempt reads, and writes within the job's transaction.

    With TURNO_FILES_FOLDER files are written into this folder and may be as large as the disk.
    """

    def __init__(self, attempt: AttemptContext) -> None:
        self._attempt = attempt
        self._schema = attempt.claim.login.schema
        self._root = attempt.settings.files_folder

    @contextmanager
    def open(self, file_id: UUID) -> Iterator[tuple[KeptFile, io.BufferedReader]]:
        """Open an upload of the job's user, to read and to seek in; raises FileGone.

        The file is then kept as long as this job. At most two pieces of it are in memory.
        """
        statement, claim = qualified(TAKE, self._schema), self._attempt.claim
        with self._attempt.connection.cursor(row_factory=class_row(KeptFile)) as cursor:
            file = cursor.execute(statement, (claim.job_id, claim.token, file_id)).fetchone()
        if file is None:
            raise FileGone("the file is no longer kept, or was not uploaded by the user of this job")
        if file.in_folder:
            stream = Folder(self._root, self._schema).open(file.id, file.size)
        else:
            stream = io.BufferedReader(_Reading(partial(self._piece, file.id), file), file.piece_bytes)
        with stream:
            yield file, stream

    @contextmanager
    def create(self, name: str, media_type: str | None = None) -> Iterator[io.BufferedIOBase]:
        """Open a stream into a new file, which is kept once the job's work is committed; raises FileTooLarge.

        An error within the block leaves the file incomplete and invisible, and as a rule ends the job.
        """
        kind = media_type or media_type_of(name)
        made = self._call("file_create", name, kind, PIECE_BYTES, bool(self._root))
        if self._root:
            with self._in_folder(made) as into_folder:
                yield into_folder
            return
        stream = Writing(partial(self._call, "file_append", made))
        yield stream
        stream.finish()

    @contextmanager
    def _in_folder(self, file_id: UUID) -> Iterator[io.BufferedIOBase]:
        folder = Folder(self._root, self._schema)
        with ExitStack() as undo:
            # An incomplete file is removed at once, without maintenance.
            undo.callback(folder.remove, file_id)
            with folder.create(file_id) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                size = file.tell()
            folder.complete(file_id)
            self._call("file_finish", file_id, size)
            undo.pop_all()

    def _piece(self, file_id: UUID, n: int) -> bytes:
        statement = qualified("SELECT data FROM {}.job_file_pieces WHERE file_id = %s AND n = %s", self._schema)
        with self._attempt.connection.cursor(binary=True, row_factory=tuple_row) as cursor:
            row = cursor.execute(statement, (file_id, n)).fetchone()
        if row is None:
            raise FileGone("the file was removed while it was read")
        return bytes(row[0])

    def _call(self, function: LiteralString, *parameters: Any) -> Any:
        return under_claim(self._attempt.connection, self._attempt.claim, function, *parameters)[0]


class Writing(io.BufferedIOBase):
    """A stream into the database; `append` receives number and bytes of each piece, and whether it is the last."""

    def __init__(self, append: Callable[[int, bytes, bool], object]) -> None:
        self._append = append
        self._pending = bytearray()
        self._sent = 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: "ReadableBuffer") -> int:
        """Append these bytes; raises FileTooLarge."""
        size = memoryview(data).nbytes
        if self.tell() + size > LARGEST_FILE:
            raise FileTooLarge(f"the file would be larger than {LARGEST_FILE_MB} MB; ask for less at once")
        self._pending += data
        while len(self._pending) > PIECE_BYTES:
            self._send(bytes(self._pending[:PIECE_BYTES]), last=False)
            del self._pending[:PIECE_BYTES]
        return size

    def tell(self) -> int:
        """Return the number of written bytes."""
        return self._sent * PIECE_BYTES + len(self._pending)

    def finish(self) -> None:
        """Send the last piece."""
        self._send(bytes(self._pending), last=True)
        self._pending.clear()

    def _send(self, data: bytes, *, last: bool) -> None:
        self._append(self._sent, data, last)
        self._sent += not last


class _Reading(io.RawIOBase):
    def __init__(self, read: Callable[[int], bytes], file: KeptFile) -> None:
        self._read = read
        self._file = file
        self._position = 0
        self._piece: tuple[int, bytes] = (-1, b"")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._file.size}[whence]
        if start + offset < 0:
            raise ValueError("a file is not sought before its beginning")
        self._position = start + offset
        return self._position

    def readinto(self, into: "WriteableBuffer") -> int:
        buffer = memoryview(into).cast("B")
        if self._position >= self._file.size:
            return 0
        n, offset = divmod(self._position, self._file.piece_bytes)
        if self._piece[0] != n:
            self._piece = (n, self._read(n))
        part = self._piece[1][offset : offset + len(buffer)]
        buffer[: len(part)] = part
        self._position += len(part)
        return len(part)
