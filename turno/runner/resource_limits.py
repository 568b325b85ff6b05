"""The resource limits of a child, which sets them before any handler code runs."""

import ctypes
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PAGE = resource.getpagesize()
ADOPTED_WITHIN = 10.0  # seconds


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
