"""Two jobs that cost next to nothing, and a resident worker that knows them: `python -m benchmarks.bare_jobs pool`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.jobs.handler import JobContext, JobHandler
from app.jobs.registry import Registry
from app.jobs.retry import RetryPolicy
from app.logs import log_to_stderr
from cli.environment import read_settings
from cli.failures import run_plainly

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
    """Run as the resident worker of the backend that is named."""
    from cli.wiring import consumer_supervisor, pool_supervisor  # noqa: PLC0415 - a handler's module stays light

    settings = read_settings()
    log_to_stderr(settings.log_level)
    if sys.argv[1] == "pool":
        pool_supervisor(settings, registry=REGISTRY).run()
    else:
        consumer_supervisor(settings, REGISTRY).run()


def command(backend: str) -> list[str]:
    """Return the command line of such a worker."""
    return [sys.executable, "-m", "benchmarks.bare_jobs", backend]


def variables(environment: Mapping[str, str], broker: str) -> dict[str, str]:
    """Return a worker's environment."""
    return {**environment, "RABBITMQ_URL": broker, "LOG_LEVEL": "ERROR"}


if __name__ == "__main__":
    sys.exit(run_plainly(main))
