"""Processor time of processes: unlike the time that passed, a busy machine hardly changes it."""

import os
import resource
import time
from contextlib import suppress
from pathlib import Path

OWN = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def milliseconds(*pids: int) -> float:
    """Return the processor time of the first threads of these processes; one that ended has used nothing."""
    used = 0
    for pid in pids:
        with suppress(OSError):
            used += int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
    return used / 1e6


class OtherProcesses:
    """The processors that processes outside the benchmark use, from the start to `cores`.

    Read it when all children have ended: the system counts the time of a child at its end.
    """

    def __init__(self) -> None:
        self._start = self._now()

    def cores(self) -> float:
        """Return their mean number of busy processors."""
        passed, busy, own = (now - start for now, start in zip(self._now(), self._start, strict=True))
        return max(0.0, (busy - own) / passed)

    @staticmethod
    def _now() -> tuple[float, float, float]:
        user, nice, system = map(int, Path("/proc/stat").read_text().split(maxsplit=4)[1:4])
        own = sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, OWN))
        return time.monotonic(), (user + nice + system) / os.sysconf("SC_CLK_TCK"), own
