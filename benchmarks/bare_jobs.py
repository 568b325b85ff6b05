"""Two jobs that cost next to nothing, and a worker that knows them: `python -m benchmarks.bare_jobs pool`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from app.jobs.handler import JobContext, JobHandler
from app.jobs.registry import Registry
from app.jobs.retry import RetryPolicy
from app.logs import log_to_stderr
from cli.environment import public_settings
from cli.output.failures import run_plainly

if TYPE_CHECKING:
    from collections.abc import Mapping


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


REGISTRY = Registry({"idle": "benchmarks.bare_jobs:Idle", "leave": "benchmarks.bare_jobs:Leave"})


def main() -> None:
    """Run as a worker of the backend that is named; one of exec's is told a job."""
    from cli.worker_wiring import (  # noqa: PLC0415 - a handler's module stays light
        consumer_worker,
        exec_worker,
        pool_worker,
    )

    log_to_stderr(public_settings().log_level)
    match sys.argv[1]:
        case "pool":
            pool_worker(registry=REGISTRY).run()
        case "exec":
            exec_worker(UUID(sys.argv[2]), REGISTRY).run()
        case _:
            consumer_worker(registry=REGISTRY).run()


def command(backend: str) -> list[str]:
    """Return the command line of such a worker."""
    return [sys.executable, "-m", "benchmarks.bare_jobs", backend]


def variables(environment: Mapping[str, str], broker: str) -> dict[str, str]:
    """Return a worker's environment; its own sweeps launch nobody, who would not know these jobs."""
    return {**environment, "RABBITMQ_URL": broker, "LOG_LEVEL": "ERROR", "QUEUE_BACKEND": "pool"}


if __name__ == "__main__":
    sys.exit(run_plainly(main))
