"""The command `turno maintain`."""

import signal
from time import monotonic

import click

from turno.commands.alive_check import assert_alive
from turno.commands.output.results import show, wants_json
from turno.environment import read_settings
from turno.logs import log_to_stderr
from turno.without_secrets import RESIDENTS_NEED, seal


@click.command(epilog="Example: turno maintain --once --json")
@click.option("--once", is_flag=True, help="Run each task once and exit, as cron does.")
@click.option(
    "--dry-run", is_flag=True, help="With --once: roll each task back and count its changes, of batches the first."
)
@click.option("--check", is_flag=True, help="Only say whether the process that touches TURNO_ALIVE_FILE is alive.")
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
