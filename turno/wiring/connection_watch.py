"""Notice connections that handlers open themselves to the server of the tenants' database."""

import logging
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

log = logging.getLogger(__name__)

DESCRIPTORS = Path("/proc/self/fd")


class ConnectionWatch:
    """Compares the open sockets of a child process with the sessions of Turno, and warns once for each type of jobs.

    It observes only: it reads the state of descriptors, and ignores each error. A connection that the handler has
    closed is not found.
    """

    def __init__(self) -> None:
        self._known: set[int] = set()  # inodes of sockets
        self._servers: set[object] = set()
        self._free = -1
        self._warned: set[str] = set()

    def add(self, descriptor: int) -> None:
        """Register the socket of a session of Turno."""
        with suppress(OSError):
            self._known.add(os.fstat(descriptor).st_ino)
            self._servers.add(_peer(descriptor))

    def look(self, job_type: str) -> None:
        """Warn if a job of this type has left a connection to the same server open."""
        with suppress(OSError):
            free = os.dup(1)  # the lowest free number: it is the same unless a descriptor was opened or closed
            os.close(free)
            if free == self._free:
                return
            self._free = free
            if any(server in self._servers for server in list(self._new_peers())) and job_type not in self._warned:
                self._warned.add(job_type)
                log.warning(
                    "the handler of %s opened a connection to the server of the tenants' database: its statements run "
                    "under another login and commit without the job; use job.connection, orm_session(job) or "
                    "job_database(job)",
                    job_type,
                    extra={"type": job_type},
                )

    def _new_peers(self) -> Iterator[object]:
        for descriptor in (int(path.name) for path in DESCRIPTORS.iterdir()):
            with suppress(OSError):  # the descriptor of the listing is closed
                status = os.fstat(descriptor)
                if stat.S_ISSOCK(status.st_mode) and status.st_ino not in self._known:
                    self._known.add(status.st_ino)
                    yield _peer(descriptor)


def _peer(descriptor: int) -> object:
    with socket.socket(fileno=os.dup(descriptor)) as copy:
        return copy.getpeername()
