"""The commands that run as processes: `turno serve`, `turno work` and `turno maintain`.

A probe by `--check` loads no driver, and a process loads only its own modules.
"""

import signal
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from time import monotonic, time
from typing import Any
from uuid import UUID

import click

from turno.capability import enabled, load
from turno.commands.background_worker import run
from turno.commands.output import print_message, show, wants_json
from turno.environment import RESIDENTS_NEED, WEB_NEEDS, public_settings, read_settings, seal, setting
from turno.errors import InvalidSettings, TurnoError
from turno.logs import log_to_stderr
from turno.settings import Settings
from turno.worker.child_pool import PoolSize

POOL = "turno.wiring.workers:pool_worker"
# A worker touches the file every few seconds; while the database answers nothing, once in about 40 s.
STUCK_AFTER = 60.0


class NotAlive(TurnoError):
    """There is no TURNO_ALIVE_FILE yet, or the worker has not touched it for STUCK_AFTER seconds."""


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
    for capability in enabled(setting("capabilities")):
        for backend in capability.backends.values():
            if backend.program:
                return backend.program, backend.secrets
    raise InvalidSettings(["--from-broker: no enabled capability has a message broker; see TURNO_CAPABILITIES"])


@click.command(epilog="Example: turno maintain --once --json")
@click.option("--once", is_flag=True, help="Run each task once and exit, as cron does.")
@click.option(
    "--dry-run", is_flag=True, help="With --once: roll each task back and count its changes, of batches the first."
)
@click.option("--check", is_flag=True, help="Check the age of TURNO_ALIVE_FILE; exit status 1 if it is too old.")
def maintain(*, once: bool, dry_run: bool, check: bool) -> None:
    """Run the maintenance tasks every ten seconds until SIGTERM, if no resident worker does.

    A failed task is logged, and the next round repeats it. With --once each task may be repeated, may overlap with
    another, and may be missed for a day.
    """
    if (dry_run or wants_json()) and not once:
        raise click.UsageError("--dry-run and --json need --once")
    if check:
        assert_alive(read_settings())
        return
    if once:
        # Cron mails the output: a warning is worth a mail; the counts are in the table.
        log_to_stderr("WARNING")
    seal(*RESIDENTS_NEED)
    if once:
        _run_once(dry_run=dry_run)
        return
    from turno.maintenance.tasks import PERIOD  # noqa: PLC0415 - a probe loads no driver
    from turno.wiring.shared import liveness, regular_maintenance, run_deliveries  # noqa: PLC0415

    settings = read_settings()
    log_to_stderr(settings.log_level, settings.redact)
    stops = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    signs = liveness(settings)
    round_due = 0.0
    try:
        with regular_maintenance(settings, at_each_step=signs.turn) as tasks:
            while True:
                if monotonic() >= round_due:
                    tasks.run_leased()
                    run_deliveries(settings)
                    round_due = monotonic() + PERIOD.total_seconds()
                signs.ready()
                if signal.sigtimedwait(stops, max(0.0, min(round_due, signs.due) - monotonic())) is not None:
                    break
            signs.leave()
    finally:
        signs.end()


def _run_once(*, dry_run: bool) -> None:
    from turno.wiring.shared import maintenance, run_deliveries  # noqa: PLC0415 - after `seal`

    settings = read_settings()
    tasks = maintenance(settings, dry_run=dry_run)
    try:
        counts = tasks.run_once()
    finally:
        tasks.close()
    if not dry_run:
        run_deliveries(settings)
    show(counts, ("task", "would be" if dry_run else "done"), list(counts.items()))


def assert_alive(settings: Settings) -> None:
    """Print how old the last sign of life is; raises NotAlive."""
    file = Path(settings.require("alive_file").alive_file)
    try:
        age = time() - file.stat().st_mtime
    except FileNotFoundError:
        raise NotAlive(
            f"no worker is ready: there is no {file}; see the worker's log, and its TURNO_ALIVE_FILE"
        ) from None
    if age > STUCK_AFTER:
        raise NotAlive(f"the worker is stuck or gone: its last sign of life in {file} is {age:.0f} s old; restart it")
    print_message(f"alive {max(age, 0):.0f} s ago")


@click.command(epilog="Example: turno serve")
def serve() -> None:
    """Serve the API and the pages at TURNO_WEB_BIND until SIGTERM."""
    if find_spec("uvicorn") is None:
        raise InvalidSettings(["`turno serve` needs uvicorn: install turno-jobs with its extra `serve`"])
    seal(*WEB_NEEDS)
    from turno.http_server.web_server import WebServer  # noqa: PLC0415 - after `seal`, and not for workers
    from turno.wiring.logins import logins_of  # noqa: PLC0415

    settings = read_settings().require("database_url", "master_key")
    if not settings.web_app:  # an application may use its own login
        settings.require("jwt_key")
    logins_of(settings)
    WebServer(settings, _application).run()


def _application(settings: Settings) -> Any:
    from turno.wiring.web import serving_application  # noqa: PLC0415 - the parent imports no flask

    return serving_application(settings)
