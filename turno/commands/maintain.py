"""Run the passes of cron for ever: `python cli/maintain.py [--check]`, for installations without a resident worker."""

import argparse
import signal
import sys
from collections.abc import Sequence
from time import monotonic

from turno.commands.alive_check import assert_alive
from turno.commands.output.failures import run_plainly
from turno.environment import read_settings
from turno.logs import log_to_stderr
from turno.without_secrets import WORKERS_NEED, seal


def main(arguments: Sequence[str] | None = None, program: str = "maintain.py") -> int:
    """Return 0 after SIGTERM or SIGINT; with --check, 0 if it is alive."""
    parser = argparse.ArgumentParser(prog=program, description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say whether the one that touches ALIVE_FILE lives")
    asked = parser.parse_args(arguments)
    return run_plainly((lambda: assert_alive(read_settings())) if asked.check else maintain)


def maintain() -> None:
    """Run what is due every ten seconds until a signal comes; a failed round is logged, and the next one tries."""
    seal(*WORKERS_NEED)
    from turno.maintenance.passes import SWEEP  # noqa: PLC0415 - a probe loads no driver
    from turno.wiring.shared import liveness, maintenance  # noqa: PLC0415

    settings = read_settings()
    log_to_stderr(settings.log_level)
    stops = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    signs = liveness(settings)
    passes = maintenance(settings, at_each_step=signs.turn)
    round_due = 0.0
    try:
        while True:
            if monotonic() >= round_due:
                passes.run_leased_or_log()
                round_due = monotonic() + SWEEP.total_seconds()
            signs.ready()
            if signal.sigtimedwait(stops, max(0.0, min(round_due, signs.due) - monotonic())) is not None:
                break
        signs.leave()
        passes.close()
    finally:
        signs.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
