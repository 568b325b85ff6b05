"""What a child may use, set from inside it before any handler code runs."""

import ctypes
import os
import resource
import signal
from pathlib import Path

PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; exits at once if it has ended already."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(os.EX_UNAVAILABLE)


def limit_memory(megabytes: int) -> None:
    """Let this process allocate so much more than it has now; beyond that it gets MemoryError."""
    used = 0
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmData:"):
            used = int(line.split()[1]) * 1024
    limit = used + megabytes * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
