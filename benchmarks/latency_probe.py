"""A handler that rings at its first line, and the bell that hears it; the clock is the same in all processes."""

import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from turno.jobs.handler import JobHandler
from turno.jobs.job_context import JobContext
from turno.jobs.outcome import RetryPolicy

PROBE = "benchmarks.latency_probe:HANDLERS"


@dataclass(frozen=True, slots=True)
class Rope:
    """The address and text of the signal, and the seconds of the first attempt; no bell, no ring."""

    bell: str = ""
    word: str = ""
    seconds: float = 0.0
    padding: str = ""


class Ring(JobHandler[Rope]):
    """Ring, and be at work for a while; an attempt after the first rings and is done."""

    type = "ring"
    retry = RetryPolicy(first=0, longest=0)

    def handle(self, job: JobContext, payload: Rope) -> dict[str, Any]:
        """Take the time before anything else."""
        reached = time.monotonic_ns()
        if payload.bell:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as rope:
                rope.sendto(f"{payload.word} {reached} {os.getpid()}".encode(), payload.bell)
        if job.attempt == 1:
            time.sleep(payload.seconds)
        return {}


class Chime(Ring):
    """The same, with a separate commit for each job."""

    type = "chime"
    alone = True


class Rung(NamedTuple):
    """One ring: its word, the nanoseconds of CLOCK_MONOTONIC at the handler's first line, and the process."""

    word: str
    at: int
    pid: int


class Bell:
    """Hears rings, in the order in which they came."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)

    def hear(self, within: float = 60.0) -> Rung:
        """Wait for the next ring; raises TimeoutError."""
        self._socket.settimeout(within)
        word, at, pid = self._socket.recv(1024).decode().split()
        return Rung(word, int(at), int(pid))

    def close(self) -> None:
        """Take it down."""
        self._socket.close()


HANDLERS = (Ring, Chime)
