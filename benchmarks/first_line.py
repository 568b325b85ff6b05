"""A handler that only reports the time of its first line; the clock is the same in all processes."""

import os
import time
from dataclasses import dataclass
from typing import Any

from turno.jobs.handler import JobHandler
from turno.jobs.job_context import JobContext


@dataclass(frozen=True, slots=True)
class Note:
    """Where to write the time down."""

    note: str


class FirstLine(JobHandler[Note]):
    """Write down the nanoseconds of CLOCK_MONOTONIC at its first line."""

    type = "first_line"

    def handle(self, job: JobContext, payload: Note) -> dict[str, Any]:
        """Take the time, then keep it."""
        reached = time.monotonic_ns()
        del job
        descriptor = os.open(payload.note, os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(descriptor, str(reached).encode())
        os.close(descriptor)
        return {}


HANDLERS = (FirstLine,)
