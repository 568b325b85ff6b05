"""Files of one tenant in a folder of the hosts, named by file id below the name of the tenant's schema.

The rows of the schema decide: maintenance removes a file without a row, and a row without a file raises FileMissing. A
complete file gets its name by a rename, after its bytes are on the disk.
"""

import io
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import time
from uuid import UUID

from turno.errors import TurnoError

SCHEMA = re.compile(r"[a-z0-9_]+", re.ASCII)
PART = ".part"
OLD_SECONDS = 86_400  # for which a file without a row may belong to a transaction that is still open


class FileMissing(TurnoError):
    """The row of the file exists, but its bytes are not in TURNO_FILES_FOLDER of this host."""


class Folder:
    """The folder of one tenant's files; `root` is TURNO_FILES_FOLDER, which all hosts share."""

    def __init__(self, root: str, schema: str) -> None:
        if not root:
            raise FileMissing("the file is kept in a folder, and TURNO_FILES_FOLDER is not set for this process")
        if SCHEMA.fullmatch(schema) is None:
            raise ValueError(f"{schema!r} is no name of a folder")
        self._path = Path(root) / schema

    def write(self, file_id: UUID, offset: int, data: bytes) -> None:
        """Write these bytes of an upload at `offset`, and wait until the disk has them."""
        part = self._part(file_id)
        # The transaction of an earlier rename was rolled back: the file is not complete.
        with suppress(FileNotFoundError):
            self._final(file_id).rename(part)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            written = 0
            while written < len(data):
                written += os.pwrite(descriptor, memoryview(data)[written:], offset + written)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def create(self, file_id: UUID) -> io.BufferedWriter:
        """Return a stream into a new file, which gets its name by `complete`."""
        return open(self._part(file_id), "wb", opener=lambda path, flags: os.open(path, flags, 0o600))

    def complete(self, file_id: UUID) -> None:
        """Give a file its name; the disk must have its bytes."""
        self._part(file_id).rename(self._final(file_id))
        descriptor = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def open(self, file_id: UUID, size: int) -> io.BufferedReader:
        """Return a complete file to read; raises FileMissing if it is absent or has another size than its row."""
        try:
            stream = self._final(file_id).open("rb")
        except OSError as error:
            raise FileMissing(f"the file {file_id} is not in TURNO_FILES_FOLDER: {error.strerror}") from error
        if os.fstat(stream.fileno()).st_size != size:
            stream.close()
            raise FileMissing(f"the file {file_id} in TURNO_FILES_FOLDER has another size than its record")
        return stream

    def remove(self, file_id: UUID) -> None:
        """Remove a file, complete or not, if it is there."""
        for path in (self._path / str(file_id), self._path / f"{file_id}{PART}"):
            path.unlink(missing_ok=True)

    def old(self) -> Iterator[UUID]:
        """Yield the files that were not written for OLD_SECONDS."""
        before = time() - OLD_SECONDS
        with suppress(FileNotFoundError), os.scandir(self._path) as entries:
            for entry in entries:
                with suppress(ValueError, FileNotFoundError):
                    if entry.stat(follow_symlinks=False).st_mtime < before:
                        yield UUID(entry.name.removesuffix(PART))

    def _final(self, file_id: UUID) -> Path:
        return self._path / str(file_id)

    def _part(self, file_id: UUID) -> Path:
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._path / f"{file_id}{PART}"


class FilePart:
    """The bytes from `start` up to `stop` of an open file, for a WSGI server: by descriptor or by reading."""

    def __init__(self, file: io.BufferedReader, start: int, stop: int) -> None:
        self._file = file
        self._left = stop - start
        file.seek(start)

    def fileno(self) -> int:
        """Return the descriptor, positioned at the first byte."""
        return self._file.fileno()

    def read(self, size: int) -> bytes:
        """Return the next bytes, none at the end."""
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        return data

    def close(self) -> None:
        """Close the file."""
        self._file.close()
