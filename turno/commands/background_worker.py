"""Run one job by its id, then whatever else waits: `python cli/background_worker.py <job_id>`."""

import sys
from uuid import UUID

from turno.commands.output.failures import run_plainly
from turno.environment import public_settings
from turno.logs import log_to_stderr
from turno.without_secrets import WORKERS_NEED, seal


def main(arguments: list[str]) -> int:
    """Return 0 after the work is done, 2 for a bad call, 1 if this worker could not go on."""
    if len(arguments) != 1:
        print("usage: background_worker.py <job_id>", file=sys.stderr)
        return 2
    try:
        job_id = UUID(arguments[0])
    except ValueError:
        print(f"{arguments[0][:60]!r} is not a job id: expected a UUID", file=sys.stderr)
        return 2

    def work() -> None:
        seal(*WORKERS_NEED)
        from turno.wiring.workers import exec_worker  # noqa: PLC0415 - not twice, if it must begin anew

        log_to_stderr(public_settings().log_level)
        exec_worker(job_id).run()

    return run_plainly(work)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
