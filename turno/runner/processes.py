"""The child as a process: its parent, its memory, and the processes that a handler started and left behind."""

import ctypes
import logging
import os
import resource
import signal
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

from turno.queues.interface import LAUNCHED

log = logging.getLogger(__name__)

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PAGE = resource.getpagesize()
ADOPTED_WITHIN = 10.0  # seconds
PF_FORKNOEXEC = 0x40  # of the kernel, include/linux/sched.h
_LAUNCHED = tuple(word.encode() for word in LAUNCHED)
GONE_WITHIN = 5.0  # seconds in which a killed process is gone, unless the kernel itself is stuck


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; exits at once if it has ended already."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(os.EX_UNAVAILABLE)


def await_parent(parent: int) -> None:
    """Return once this process is a child of `parent`; exits if it does not become one."""
    give_up = monotonic() + ADOPTED_WITHIN
    while os.getppid() != parent:
        if monotonic() > give_up:
            os._exit(os.EX_UNAVAILABLE)
        sleep(0.0002)


def adopt_orphans() -> None:
    """Adopt the orphans among the descendants of this process, instead of process 1."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@contextmanager
def limited_memory(megabytes: int) -> Iterator[None]:
    """Limit the further memory of this process; beyond the limit, it receives MemoryError."""
    before, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, ((_status("VmData:") + megabytes * 1024) * 1024, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, most))


def resident_megabytes() -> int:
    """Return the resident memory of this process; read after each batch, so without a file object."""
    statm = os.open("/proc/self/statm", os.O_RDONLY)
    try:
        return int(os.read(statm, 100).split()[1]) * PAGE >> 20
    finally:
        os.close(statm)


def _status(name: str) -> int:
    """Return a figure of /proc/self/status, in kB."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise LookupError(name)


def children() -> set[int]:
    """Return the children of this process, including ended children."""
    pids: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # a thread may end meanwhile
            pids.update(map(int, (task / "children").read_text(encoding="ascii").split()))
    return pids


def has_no_child() -> bool:
    """Return whether this process has no child at all; costs one system call."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def end_leftovers(*, spare: Collection[int] = ()) -> None:
    """Kill and reap every child of this process but `spare` and workers that a queue launched.

    This process must adopt orphans (`adopt_orphans`): the children of a killed child then become its own
    children, until none is left.
    """
    if has_no_child():
        return
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
