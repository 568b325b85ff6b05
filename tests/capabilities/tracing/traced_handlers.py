"""Jobs that are looked for in traces: one succeeds at its second attempt, one never."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from turno.jobs.handler import JobHandler
from turno.jobs.job_context import JobContext
from turno.jobs.outcome import RetryPolicy


@dataclass(frozen=True, slots=True)
class TracedPayload:
    """Whether the job fails for good."""

    fails: bool = False


class Traced(JobHandler[TracedPayload]):
    """Fails at its first attempt, and enqueues a job at its second."""

    type = "traced"
    retry = RetryPolicy(max_attempts=2, first=0.1, longest=0.1)

    def handle(self, job: JobContext, payload: TracedPayload) -> dict[str, Any]:
        """Log a line in each attempt."""
        job.log.warning("here")
        if payload.fails or job.attempt == 1:
            raise ValueError("not now")
        return {}


HANDLERS = [Traced]
