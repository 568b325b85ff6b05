"""Bounds the spawned workers of one host, over all its web processes: each holds the lock of one file.

A lock belongs to the open file, which the worker inherits, so any end of the worker releases it. The file's text is the
tenant of the running job. Further slots are in reserve, for tenants without a slot.
"""

import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from turno.errors import TurnoError

ORDINARY, RESERVE = "slot", "reserve"
LONGEST_SLUG = 40  # bytes


class UnsafeSlotFolder(TurnoError):
    """The slot folder belongs to another user or is open to others; set TURNO_RUN_FOLDER to a private folder."""


class Slot:
    """The slot of one worker; `descriptor` is the locked file, which the worker inherits."""

    def __init__(self, descriptor: int, path: Path, limit: int) -> None:
        """`limit` is the number of ordinary slots."""
        self.descriptor = descriptor
        self._path = path
        self._limit = limit

    @classmethod
    def inherited(cls, handed: str) -> Self:
        """Return the slot that the launcher took for this process, from the `handed` text of its environment."""
        descriptor, limit = handed.split(":")
        return cls(int(descriptor), Path(f"/proc/self/fd/{descriptor}").readlink(), int(limit))

    @property
    def handed(self) -> str:
        """Return the text from which `inherited` makes the slot in the process that inherits its file."""
        return f"{self.descriptor}:{self._limit}"

    def removed(self) -> bool:
        """Return whether its file was removed, as with the whole installation."""
        return not self._path.exists()

    def use_for(self, tenant: str) -> None:
        """Record the tenant of the slot's job; empty without a job."""
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, tenant.encode(), 0)

    def ordinary(self) -> bool:
        """Return whether a job of any tenant may run in this slot, not only of a tenant without another slot.

        A slot in reserve is exchanged for an ordinary one, if one is free.
        """
        return self._path.name.startswith(ORDINARY) or self._move()

    def others(self) -> frozenset[str]:
        """Return the tenants that have other slots on this host."""
        folder = self._path.parent
        others = {*folder.glob(f"{ORDINARY}-*"), *folder.glob(f"{RESERVE}-*")} - {self._path}
        return frozenset(filter(None, (path.read_text(encoding="utf-8") for path in others)))

    def release(self) -> None:
        """Give the slot back."""
        self.use_for("")
        fcntl.flock(self.descriptor, fcntl.LOCK_UN)

    def regain(self) -> bool:
        """Lock the same slot again, or an ordinary one instead of a reserved one; False if others hold them all."""
        if self._path.name.startswith(RESERVE) and self._move():
            return True
        return _lock(self.descriptor)

    def close(self) -> None:
        """Close this process's share; the slot remains locked while another process has it open."""
        os.close(self.descriptor)

    def _move(self) -> bool:
        for path in _paths(self._path.parent, ORDINARY, self._limit):
            if (descriptor := _open_locked(path, set())) is not None:
                self.use_for("")
                os.dup2(descriptor, self.descriptor)  # which closes the file of the slot in reserve, and so frees it
                os.close(descriptor)
                self._path = path
                return True
        return False


class SlotFolder:
    """Hands out at most `limit` slots on this host, and `reserve` more to tenants that have none."""

    def __init__(self, folder: Path, limit: int, reserve: int = 0) -> None:
        self.folder = folder
        self.limit = limit
        self.reserve = reserve
        self._paths = [*map(str, _paths(folder, ORDINARY, limit))], [*map(str, _paths(folder, RESERVE, reserve))]

    def take(self, tenant: str) -> Slot | None:
        """Return a free slot for a tenant's job, or None without a free slot; never waits."""
        self._prepare()
        taken: set[str] = set()
        ordinary, reserve = self._paths
        for path in ordinary:
            if (descriptor := _open_locked(path, taken)) is not None:
                return self._slot(descriptor, path, tenant)
        for path in reserve:
            if tenant in taken:
                break
            if (descriptor := _open_locked(path, taken)) is not None:
                return self._slot(descriptor, path, tenant)
        return None

    def _slot(self, descriptor: int, path: str, tenant: str) -> Slot:
        slot = Slot(descriptor, Path(path), self.limit)
        slot.use_for(tenant)
        return slot

    def _prepare(self) -> None:
        try:
            status = os.lstat(self.folder)
        except FileNotFoundError:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = os.lstat(self.folder)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
            raise UnsafeSlotFolder(f"{self.folder}: {UnsafeSlotFolder.__doc__}")


def _paths(folder: Path, kind: str, count: int) -> Iterator[Path]:
    return (folder / f"{kind}-{number}" for number in range(count))


def _open_locked(path: str | Path, taken: set[str]) -> int | None:
    """Return the descriptor of a slot file that this process has locked now, or None and add its tenant to `taken`."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    ours = False
    try:
        ours = _lock(descriptor)
        if not ours:
            taken.add(os.pread(descriptor, LONGEST_SLUG, 0).decode())
    finally:
        if not ours:
            os.close(descriptor)
    return descriptor if ours else None


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
