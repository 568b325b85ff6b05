"""Give one process exclusive use of a folder."""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self


class FolderInUseError(RuntimeError):
    """Another process holds the folder."""


class FolderLock:
    """Holds a folder until released or until the process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder.with_name(f"{folder.name}.lock")
        self._file: int | None = None

    def acquire(self, *, wait: bool = False) -> None:
        """Lock the folder; without `wait`, refuse if another process has locked it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(file)
            raise FolderInUseError(
                f"{self.folder} is in use by another process; stop it, or use another folder"
            ) from None
        except BaseException:
            os.close(file)
            raise
        self._file = file

    def release(self) -> None:
        """Unlock the folder; harmless without the lock."""
        if self._file is not None:
            # Unlocked by name, because forked children share the open file and would keep it locked.
            fcntl.flock(self._file, fcntl.LOCK_UN)
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Self:
        self.acquire(wait=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
