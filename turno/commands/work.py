"""The command `turno work`. A probe by `--check` loads no driver."""

from collections.abc import Sequence
from uuid import UUID

import click

from turno.capability import enabled
from turno.commands.alive_check import assert_alive
from turno.commands.background_worker import run
from turno.environment import public_settings, read_settings, setting
from turno.errors import InvalidSettings
from turno.logs import log_to_stderr
from turno.named import load
from turno.without_secrets import RESIDENTS_NEED, seal
from turno.worker.child_pool import PoolSize

POOL = "turno.wiring.workers:pool_worker"


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


@click.command(epilog="Example: turno work --queues default,mail --max 8")
@click.option("--once", is_flag=True, help="Run the waiting jobs of the exec backend, or first JOB_ID, and exit.")
@click.option("--from-broker", is_flag=True, help="Run the jobs that the message broker distributes.")
@click.option("--queues", type=_names, metavar="NAME,…", default="", help="Queues to serve; all by default.")
@click.option("--min", "fewest", type=click.IntRange(0, 256), help="Children when idle, for TURNO_MIN_CHILDREN.")
@click.option("--max", "most", type=click.IntRange(1, 256), help="Children under load, for TURNO_MAX_CHILDREN.")
@click.option("--check", is_flag=True, help="Check the age of TURNO_ALIVE_FILE; exit status 1 if it is too old.")
@click.argument("job_id", type=click.UUID, required=False)
def work(
    *,
    once: bool,
    from_broker: bool,
    queues: Sequence[str],
    fewest: int | None,
    most: int | None,
    check: bool,
    job_id: UUID | None,
) -> None:
    """Claim waiting jobs and run them in child processes until SIGTERM.

    At SIGTERM the worker claims no more jobs, waits TURNO_SHUTDOWN_GRACE_SECONDS for the running jobs, releases the
    others and exits. It also runs the maintenance tasks. With --from-broker and --queues it claims the jobs of these
    queues from the database and reads no messages.
    """
    if once and from_broker:
        raise click.UsageError("--once and --from-broker exclude each other")
    if job_id is not None and not once:
        raise click.UsageError("JOB_ID needs --once")
    if check:
        assert_alive(read_settings())
        return
    if once:
        run(job_id)
        return
    program, needs = _broker_worker() if from_broker else (POOL, ())
    seal(*RESIDENTS_NEED, *needs)
    settings = public_settings()
    log_to_stderr(settings.log_level, settings.redact)
    most = most or settings.max_children
    fewest = fewest if fewest is not None else min(settings.min_children, most)
    if fewest > most:
        raise InvalidSettings([f"--min {fewest} is larger than --max {most}"])
    load(program)(queues, PoolSize(minimum=fewest, maximum=most, reserve=settings.reserve_children)).run()


def _broker_worker() -> tuple[str, Sequence[str]]:
    """Return the program and the secrets of the first backend with a message broker; raises InvalidSettings."""
    for one in enabled(setting("capabilities")):
        for backend in one.backends.values():
            if backend.program:
                return backend.program, backend.secrets
    raise InvalidSettings(["--from-broker: no enabled capability has a message broker; see TURNO_CAPABILITIES"])
