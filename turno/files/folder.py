"""Files of one tenant in a folder of the hosts: a name is a file's id, below the name of the tenant's schema.

A row of the tenant's schema is the truth: a file without one is removed by `strangers`, a row without a file is told as
FileMissing. What is complete has its name by a rename, after its bytes are on the disk.
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
    """The file's record is kept, and its bytes are not in FILES_FOLDER of this host."""


class Folder:
    """Where one tenant's files are; `root` is FILES_FOLDER, which all hosts share."""

    def __init__(self, root: str, schema: str) -> None:
        if not root:
            raise FileMissing("the file is kept in a folder, and FILES_FOLDER is not set for this process")
        if SCHEMA.fullmatch(schema) is None:
            raise ValueError(f"{schema!r} is no name of a folder")
        self._place = Path(root) / schema

    def write(self, file_id: UUID, offset: int, data: bytes) -> None:
        """Put these bytes of an upload where they belong, and wait until the disk has them."""
        part = self._part(file_id)
        # Whoever completed it did not commit that: it is not complete.
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
        """Return a stream into a new file, which has its name after `complete`."""
        return open(self._part(file_id), "wb", opener=lambda path, flags: os.open(path, flags, 0o600))

    def complete(self, file_id: UUID) -> None:
        """Give a file its name; its bytes are on the disk."""
        self._part(file_id).rename(self._final(file_id))
        descriptor = os.open(self._place, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def open(self, file_id: UUID, size: int) -> io.BufferedReader:
        """Return a complete file to read; raises FileMissing if it is not here, or not as large as its record says."""
        try:
            stream = self._final(file_id).open("rb")
        except OSError as error:
            raise FileMissing(f"the file {file_id} is not in FILES_FOLDER: {error.strerror}") from error
        if os.fstat(stream.fileno()).st_size != size:
            stream.close()
            raise FileMissing(f"the file {file_id} in FILES_FOLDER is not as large as its record says")
        return stream

    def remove(self, file_id: UUID) -> None:
        """Remove a file, complete or not, if it is there."""
        for path in (self._place / str(file_id), self._place / f"{file_id}{PART}"):
            path.unlink(missing_ok=True)

    def old(self) -> Iterator[UUID]:
        """Yield the files here that nobody has written to for OLD_SECONDS."""
        before = time() - OLD_SECONDS
        with suppress(FileNotFoundError), os.scandir(self._place) as entries:
            for entry in entries:
                with suppress(ValueError, FileNotFoundError):
                    if entry.stat(follow_symlinks=False).st_mtime < before:
                        yield UUID(entry.name.removesuffix(PART))

    def _final(self, file_id: UUID) -> Path:
        return self._place / str(file_id)

    def _part(self, file_id: UUID) -> Path:
        self._place.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._place / f"{file_id}{PART}"
