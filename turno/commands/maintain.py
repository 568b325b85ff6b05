"""The command `turno maintain`."""

from __future__ import annotations

import signal
from time import monotonic

import click

from turno.commands.alive_check import assert_alive
from turno.environment import read_settings
from turno.logs import log_to_stderr
from turno.without_secrets import RESIDENTS_NEED, seal


@click.command()
@click.option("--check", is_flag=True, help="Only say whether the process that touches TURNO_ALIVE_FILE is alive.")
def maintain(*, check: bool) -> None:
    """Run the maintenance tasks every ten seconds until SIGTERM, if no resident worker does.

    A task that fails is logged, and the next round tries it again.
    """
    if check:
        assert_alive(read_settings())
        return
    seal(*RESIDENTS_NEED)
    from turno.maintenance.rounds import PERIOD  # noqa: PLC0415 - a probe loads no driver
    from turno.wiring.deliveries import run_deliveries  # noqa: PLC0415
    from turno.wiring.shared import liveness, regular_maintenance  # noqa: PLC0415

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
