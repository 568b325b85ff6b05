"""End the processes that a handler started and left behind, in any session."""

import logging
import os
import signal
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

from turno.queues.interface import LAUNCHED

log = logging.getLogger(__name__)

PF_FORKNOEXEC = 0x40  # of the kernel, include/linux/sched.h
_LAUNCHED = tuple(word.encode() for word in LAUNCHED)
GONE_WITHIN = 5.0  # seconds in which a killed process is gone, unless the kernel itself is stuck


def children() -> set[int]:
    """Return the children of this process, including ended children."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # a thread may end meanwhile
            found.update(map(int, (task / "children").read_text(encoding="ascii").split()))
    return found


def none() -> bool:
    """Say whether this process has no child at all; costs one system call."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def end(*, spare: Collection[int] = ()) -> None:
    """Kill and reap every child of this process but `spare` and workers that a queue launched.

    This process must adopt orphans (`limits.adopt_orphans`): the children of a killed child then become its own
    children, until none is left.
    """
    give_up = monotonic() + GONE_WITHIN
    while leftovers := {pid for pid in children() if pid not in spare and not _launched(pid)}:
        for pid in leftovers:
            _kill(pid)
        if monotonic() > give_up:
            log.warning("processes that a handler left behind do not end: %s", sorted(leftovers))
            return
        sleep(0.001)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, os.WNOHANG)


def _launched(pid: int) -> bool:
    # Maintenance may launch a worker for the exec backend and end: then this process adopts that worker.
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        flags = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[6])
    except OSError:
        return False
    # A fork of such a worker has the same command line; it has started no other program.
    return tuple(words[1:3]) == _LAUNCHED and not flags & PF_FORKNOEXEC
