"""Run a job by its id, then other waiting jobs: the program that the exec backend launches."""

import sys
from uuid import UUID

from turno.commands.failures import run_plainly
from turno.environment import WORKERS_NEED, public_settings, seal
from turno.logs import log_to_stderr


def main(arguments: list[str]) -> int:
    """Return 0 after the work is done, 2 for a bad call, 1 if this worker could not go on."""
    try:
        (job_id,) = map(UUID, arguments)
    except ValueError:
        import click  # noqa: PLC0415 - only for messages; a launched worker starts without it

        command = click.command(help=__doc__)(click.argument("job_id", type=click.UUID)(run))
        raise SystemExit(command.main(arguments, prog_name="background_worker.py")) from None
    return run_plainly(lambda: run(job_id))


def run(job_id: UUID | None) -> None:
    """Run this job, if it is named and ready, then other waiting jobs."""
    seal(*WORKERS_NEED)
    from turno.wiring.workers import exec_worker  # noqa: PLC0415 - not twice, if it must begin anew

    settings = public_settings()
    log_to_stderr(settings.log_level, settings.redact)
    exec_worker(job_id).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
