"""A PostgreSQL server for each test process of this repository, with its data in memory and copied from a template."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cli.servers.embedded_postgres import Cluster
from cli.servers.folder_lock import FolderInUseError, FolderLock
from cli.servers.postgres_binaries import find_binaries, version_of

if TYPE_CHECKING:
    from collections.abc import Iterator

MEMORY = Path("/dev/shm")  # noqa: S108 - its folder below is checked to be this user's
FREE_BYTES = 2 << 30  # bytes that are free there: each test process has a server, or two
# Keeps a server's log of changes small.
SMALL_LOG = {"max_wal_size": "128MB", "min_wal_size": "32MB"}


@pytest.fixture(scope="session")
def postgres_template() -> Path:
    """A data folder as initdb leaves it, made once for this user, machine and version."""
    return template_of(find_binaries())


def template_of(binaries: Path) -> Path:
    """Return where the data folder is, or will be, that initdb makes once for these programs."""
    version = ".".join(map(str, version_of(binaries)))
    return _own_folder(Path(tempfile.gettempdir())) / f"postgres-{version}"


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A PostgreSQL server for this test process; SCRAM always, not durable."""
    with quick_server(find_binaries()) as server:
        yield server


@contextmanager
def quick_server(binaries: Path) -> Iterator[Cluster]:
    """Run a server of these programs that is not durable, with its data in memory where there is room."""
    with quick_folder("postgres") as folder:
        server = Cluster(data=folder / "data", durable=False, settings=SMALL_LOG, binaries=binaries)
        server.files.clone_from(template_of(binaries))
        with server:
            yield server


@contextmanager
def quick_folder(name: str, *, memory: Path = MEMORY) -> Iterator[Path]:
    """Give an empty folder, removed afterwards; folders that a killed process left in memory are removed, too.

    Making a database makes hundreds of files, which costs a tenth in memory of the time on a disk.
    """
    servers = _own_folder(memory if _has_space(memory) else Path(tempfile.gettempdir())) / "servers"
    servers.mkdir(exist_ok=True)
    with FolderLock(servers):
        _remove_leftovers(servers)
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=servers))
        lock = FolderLock(folder)
        lock.acquire()
    try:
        yield folder
    finally:
        _remove(lock)


def _has_space(memory: Path) -> bool:
    if not os.access(memory, os.W_OK):
        return False
    there = os.statvfs(memory)
    return there.f_bavail * there.f_frsize >= FREE_BYTES


def _own_folder(parent: Path) -> Path:
    folder = parent / f"turno-tests-{os.geteuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
        raise PermissionError(f"{folder} belongs to another user: remove it, or set TMPDIR")
    return folder


def _remove_leftovers(parent: Path) -> None:
    for folder in parent.iterdir():
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
