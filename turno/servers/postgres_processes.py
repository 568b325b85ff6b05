"""Find and end the PostgreSQL processes that an earlier, killed run left in a data folder."""

import os
import re
import shutil
import signal
from contextlib import suppress
from pathlib import Path

from turno.servers.wait import wait_until

PROCESSES = Path("/proc")
SOCKETS = re.compile(r'"unix_socket_directories=(/tmp/turno-[^"/]+)"')


class ServerRunningError(RuntimeError):
    """A server runs in the folder and does not go away."""


def processes_in(data: Path) -> list[int]:
    """Return the pids of the server processes at work in `data`: each of them makes it its current folder."""
    found: list[int] = []
    for entry in PROCESSES.glob("[0-9]*"):
        with suppress(OSError):
            if (entry / "comm").read_text().strip() == "postgres" and (entry / "cwd").readlink() == data:
                found.append(int(entry.name))
    return found


def postmaster_in(data: Path) -> int | None:
    """Return the pid noted in `data`, whether or not it still lives."""
    try:
        return int((data / "postmaster.pid").read_text().splitlines()[0])
    except (FileNotFoundError, IndexError, ValueError):
        return None


def is_ready(data: Path, pid: int) -> bool:
    """Return whether the server with `pid` has noted in `data` that it accepts connections."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return False
    return lines[:1] == [str(pid)] and [line.strip() for line in lines[7:8]] in (["ready"], ["standby"])


def end_leftovers(data: Path) -> None:
    """Leave no server process in `data`: a fast shutdown first, then by force."""
    postmaster = postmaster_in(data)
    if postmaster in processes_in(data):
        _signal(postmaster, signal.SIGINT)
        wait_until(lambda: postmaster not in processes_in(data), within=30)
    kill_all(data)


def remove_last_sockets(data: Path) -> None:
    """Remove the socket folder of the last server in `data`, which a killed run could not; that server has ended."""
    with suppress(FileNotFoundError):
        if found := SOCKETS.search((data / "postmaster.opts").read_text()):
            shutil.rmtree(found[1], ignore_errors=True)


def kill_all(data: Path) -> None:
    """Kill every server process in `data`, the postmaster first so that it restarts no process."""
    postmaster = postmaster_in(data)
    if postmaster in processes_in(data):
        _signal(postmaster, signal.SIGKILL)

    def gone() -> bool:
        left = processes_in(data)
        for pid in left:
            _signal(pid, signal.SIGKILL)
        return not left

    if not wait_until(gone, within=30):
        raise ServerRunningError(f"server processes {processes_in(data)} in {data} do not end")


def _signal(pid: int | None, number: signal.Signals) -> None:
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
