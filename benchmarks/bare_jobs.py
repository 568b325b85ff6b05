"""Two jobs that cost next to nothing, and a worker that knows them: `python -m benchmarks.bare_jobs pool`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from turno.jobs.handler import JobHandler
from turno.jobs.outcome import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from turno.jobs.job_context import JobContext


@dataclass(frozen=True, slots=True)
class Nothing:
    """No payload at all."""


class Idle(JobHandler[Nothing]):
    """Do nothing."""

    type = "idle"
    retry = RetryPolicy(max_attempts=4, first=0, longest=0)

    def handle(self, job: JobContext, payload: Nothing) -> dict[str, Any]:
        """Return."""
        del job, payload
        return {}


class Leave(JobHandler[Nothing]):
    """Leave a row behind for each run that was committed, so that two runs of a job can be counted."""

    type = "leave"
    retry = RetryPolicy(max_attempts=4, first=0, longest=0)

    def handle(self, job: JobContext, payload: Nothing) -> dict[str, Any]:
        """Write the row."""
        del payload
        job.connection.execute(
            "INSERT INTO customers (id, company_name, tax_condition, country)"
            " VALUES (gen_random_uuid()::text, %s, 'registered', 'left')",
            (str(job.job_id),),
        )
        return {}


HANDLERS = (Idle, Leave)
REFERENCE = "benchmarks.bare_jobs:HANDLERS"


def variables(environment: Mapping[str, str], broker: str) -> dict[str, str]:
    """Return the environment of a worker that knows these jobs; its own maintenance launches no worker."""
    return {
        **environment,
        "RABBITMQ_URL": broker,
        "TURNO_LOG_LEVEL": "ERROR",
        "QUEUE_BACKEND": "pool",
        "TURNO_HANDLERS": REFERENCE,
    }
