"""At most so many spawned workers on one host, over all its web processes: one locked file each.

A lock belongs to the open file, which the worker inherits; it goes when the worker ends, however it ends.
"""

import fcntl
import os
import stat
from pathlib import Path
from typing import Self

from app.errors import TurnoError


class UnsafeSlotFolder(TurnoError):
    """The slot folder belongs to somebody else or is open to others; set EXEC_SLOT_DIR to a private folder."""


class Slot:
    """One held place for a worker; `descriptor` is what the worker inherits."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def inherited(cls, descriptor: int) -> Self:
        """Return the slot that the launcher took for this process."""
        return cls(descriptor)

    def release(self) -> None:
        """Give the place back."""
        fcntl.flock(self.descriptor, fcntl.LOCK_UN)

    def regain(self) -> bool:
        """Try to have the same place again; False if somebody else has it by now."""
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Close this process's share; the place stays taken while another process has it open."""
        os.close(self.descriptor)


class SlotFolder:
    """Hands out at most `limit` slots on this host."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit

    def take(self) -> Slot | None:
        """Return a free slot, or None if every place is taken; never waits."""
        self._prepare()
        for number in range(self.limit):
            descriptor = os.open(self.folder / f"slot-{number}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
            except BaseException:
                os.close(descriptor)
                raise
            else:
                return Slot(descriptor)
        return None

    def _prepare(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = os.lstat(self.folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise UnsafeSlotFolder(f"{self.folder}: {UnsafeSlotFolder.__doc__}")
