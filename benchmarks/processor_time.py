"""Processor time of processes: unlike the time that passed, a busy machine hardly changes it."""

from contextlib import suppress
from pathlib import Path


def milliseconds(*pids: int) -> float:
    """Return the processor time of the first threads of these processes; one that ended has used nothing."""
    used = 0
    for pid in pids:
        with suppress(OSError):
            used += int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
    return used / 1e6
