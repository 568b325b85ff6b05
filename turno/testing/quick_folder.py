"""Where the data of a server for tests is: in memory where there is room for it."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from turno.servers.folder_lock import FolderInUseError, FolderLock

MEMORY = Path("/dev/shm")  # noqa: S108 - its folder below is checked to be this user's
ROOM = 2 << 30  # bytes that are free there: each test process has a server, or two
# Keeps a server's log of changes small.
SMALL_LOG = {"max_wal_size": "128MB", "min_wal_size": "32MB"}


@contextmanager
def quick_folder(name: str, *, memory: Path = MEMORY) -> Iterator[Path]:
    """Give an empty folder, removed afterwards; folders that a killed process left in memory are removed, too.

    Making a database makes hundreds of files, which costs a tenth in memory of the time on a disk.
    """
    place = _own_folder(memory if _room(memory) else Path(tempfile.gettempdir()))
    with FolderLock(place):
        _remove_leftovers(place)
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=place))
        lock = FolderLock(folder)
        lock.acquire()
    try:
        yield folder
    finally:
        _remove(lock)


def _room(memory: Path) -> bool:
    if not os.access(memory, os.W_OK):
        return False
    there = os.statvfs(memory)
    return there.f_bavail * there.f_frsize >= ROOM


def _own_folder(parent: Path) -> Path:
    folder = parent / f"turno-tests-{os.geteuid()}" / "servers"
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    if folder.parent.is_symlink() or folder.parent.stat().st_uid != os.geteuid():
        raise PermissionError(f"{folder.parent} belongs to another user: remove it, or set TMPDIR")
    folder.mkdir(exist_ok=True)
    return folder


def _remove_leftovers(place: Path) -> None:
    for folder in place.iterdir():
        lock = FolderLock(folder)
        if folder.is_dir():
            try:
                lock.acquire()
            except FolderInUseError:
                continue
            _remove(lock)


def _remove(lock: FolderLock) -> None:
    shutil.rmtree(lock.folder)
    lock.path.unlink()
    lock.release()
