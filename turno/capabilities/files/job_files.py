"""`job.files`: `open(...)` reads an upload, `create(...)` writes a file, both as streams."""

import io
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from turno.capabilities.files.folder import Folder
from turno.capabilities.files.kept_file import LARGEST_FILE_MB, PIECE_BYTES, KeptFile, media_type_of
from turno.errors import PermanentFailure
from turno.jobs.job_context import JobContext
from turno.runner.context import attempt_of
from turno.store.statements import named_refusals, qualified, value_of

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

LARGEST_FILE = LARGEST_FILE_MB * 1_048_576  # bytes


class FileGone(PermanentFailure):
    """The file was deleted, or belongs to another user; upload it again."""


class FileTooLarge(PermanentFailure):
    """The file would exceed the limit; write less into one file."""


def files(job: JobContext) -> "JobFiles":
    """Return the files of an attempt; raises PermanentFailure within a request."""
    attempt = attempt_of(job, "a file")
    claim = attempt.claim
    root = attempt.settings.files_folder
    return JobFiles(lambda: attempt.connection, claim.job_id, claim.token, root=root, schema=claim.login.schema)


class JobFiles:
    """The files that an attempt reads, and writes within the job's transaction."""

    def __init__(
        self,
        connection: Callable[[], psycopg.Connection[Any]],
        job_id: UUID,
        token: UUID,
        *,
        root: str = "",
        schema: str,
    ) -> None:
        """With a `root`, files are written below `root/schema` and may be as large as the disk."""
        self._connection = connection
        self._job_id = job_id
        self._token = token
        self._root = root
        self._schema = schema

    @contextmanager
    def open(self, file_id: UUID) -> Iterator[tuple[KeptFile, io.BufferedReader]]:
        """Open an upload of the job's user, to read and to seek in; raises FileGone.

        The file is then kept as long as this job. At most two pieces of it are in memory.
        """
        statement = qualified("SELECT {}.file_take(%s, %s, %s)", self._schema)
        if not value_of(self._connection(), statement, self._job_id, self._token, file_id):
            raise FileGone("the file is no longer kept, or was not uploaded by the user of this job")
        with self._connection().cursor(row_factory=class_row(KeptFile)) as cursor:
            statement = qualified(
                "SELECT id, name, media_type, size, piece_bytes, user_id, job_id, true AS complete, in_folder"
                " FROM {}.job_files WHERE id = %s",
                self._schema,
            )
            cursor.execute(statement, (file_id,))
            (file,) = cursor.fetchall()
        with self._reader(file) as stream:
            yield file, stream

    def _reader(self, file: KeptFile) -> io.BufferedReader:
        if not file.in_folder:
            return io.BufferedReader(_Reading(self._connection, file, self._schema), file.piece_bytes)
        return Folder(self._root, self._schema).open(file.id, file.size)

    @contextmanager
    def create(self, name: str, media_type: str | None = None) -> Iterator[io.BufferedIOBase]:
        """Open a stream into a new file, which is kept once the job's work is committed; raises FileTooLarge.

        An error within the block leaves the file incomplete and invisible, and as a rule ends the job.
        """
        with named_refusals():
            kind = media_type or media_type_of(name)
            statement = qualified("SELECT {}.file_create(%s, %s, %s, %s, %s, %s)", self._schema)
            asked = (self._job_id, self._token, name, kind, PIECE_BYTES, bool(self._root))
            made = value_of(self._connection(), statement, *asked)
        if self._root:
            with self._in_folder(made) as into_folder:
                yield into_folder
            return
        stream = Writing(self._append, made)
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
            with named_refusals(), self._connection().cursor() as cursor:
                statement = qualified("SELECT {}.file_finish(%s, %s, %s, %s)", self._schema)
                cursor.execute(statement, (self._job_id, self._token, file_id, size))
            undo.pop_all()

    def _append(self, file_id: UUID, n: int, data: bytes, last: bool) -> None:  # noqa: FBT001 - the function's order
        with named_refusals(), self._connection().cursor() as cursor:
            statement = qualified("SELECT {}.file_append(%s, %s, %s, %s, %b, %s)", self._schema)
            cursor.execute(statement, (self._job_id, self._token, file_id, n, data, last))


class Writing(io.BufferedIOBase):
    """A stream that is sent to the database in pieces, as the file `file_id`."""

    def __init__(self, append: Callable[[UUID, int, bytes, bool], None], file_id: UUID) -> None:
        self.file_id = file_id
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
        self._append(self.file_id, self._sent, data, last)
        self._sent += not last


class _Reading(io.RawIOBase):
    def __init__(self, connection: Callable[[], psycopg.Connection[Any]], file: KeptFile, schema: str) -> None:
        self._connection = connection
        self._file = file
        self._schema = schema
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
        room = memoryview(into).cast("B")
        if self._position >= self._file.size:
            return 0
        n, offset = divmod(self._position, self._file.piece_bytes)
        if self._piece[0] != n:
            self._piece = (n, self._read(n))
        part = self._piece[1][offset : offset + len(room)]
        room[: len(part)] = part
        self._position += len(part)
        return len(part)

    def _read(self, n: int) -> bytes:
        with self._connection().cursor(binary=True) as cursor:
            statement = qualified("SELECT data FROM {}.job_file_pieces WHERE file_id = %s AND n = %s", self._schema)
            cursor.execute(statement, (self._file.id, n))
            row = cursor.fetchone()
        if row is None:
            raise FileGone("the file was removed while it was read")
        return bytes(row[0])
