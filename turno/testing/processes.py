"""Process control: which processes a worker consists of, and signals to them."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from turno.queues.interface import LAUNCHED
from turno.testing.wait import wait_until


def children(pid: int) -> list[int]:
    """Return the children of a supervisor that run jobs: each leads a group, as the maintenance process does not."""
    return [child for child in below(pid) if leads_a_group(child)]


def below(pid: int) -> list[int]:
    """Return all children of a process; none if it has gone."""
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def leads_a_group(pid: int) -> bool:
    """Return whether the process lives and leads a process group."""
    with suppress(ProcessLookupError):
        return Path(f"/proc/{pid}").exists() and os.getpgid(pid) == pid
    return False


def send(number: signal.Signals, *pids: int) -> list[int]:
    """Signal each living process; returns the signalled processes."""
    reached = []
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
            reached.append(pid)
    return reached


def kill(*pids: int) -> list[int]:
    """End processes at once, as an out-of-memory killer does."""
    return send(signal.SIGKILL, *pids)


def terminate(*pids: int) -> list[int]:
    """Ask processes to end in good order, as a deployment does."""
    return send(signal.SIGTERM, *pids)


def stop(*pids: int) -> list[int]:
    """Freeze processes, like a swapping machine, and return when the system reports them as stopped."""
    reached = send(signal.SIGSTOP, *pids)
    wait_until(lambda: all(state(pid) in {"T", ""} for pid in reached), within=5, every=0.005)
    return reached


def resume(*pids: int) -> list[int]:
    """Let frozen processes go on, unaware of the time that passed."""
    return send(signal.SIGCONT, *pids)


def state(pid: int) -> str:
    """Return the state letter of a process in /proc: R, S, T, Z and so on; empty without such a process."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def working_in(folder: Path) -> list[int]:
    """Return the processes with this working directory, except this process."""
    return _others(lambda entry: (entry / "cwd").readlink() == folder)


def marked(name: str, value: str) -> list[int]:
    """Return the processes that were started with this environment variable, except this process."""
    mark = f"{name}={value}".encode()
    return _others(lambda entry: mark in (entry / "environ").read_bytes().split(b"\0"))


def _others(chosen: Callable[[Path], bool]) -> list[int]:
    pids = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if chosen(entry) and int(entry.name) != os.getpid():
                pids.append(int(entry.name))
    return pids


def is_launched(pid: int) -> bool:
    """Return whether the backend `exec` has launched this process."""
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return tuple(words[1:3]) == tuple(map(os.fsencode, LAUNCHED))
    return False
