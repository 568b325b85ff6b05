"""Run the passes of cron for ever: `python cli/maintain.py`, for installations without a resident worker."""

import argparse
import os
import signal
import socket
import sys
from collections.abc import Sequence

from app.logs import log_to_stderr
from app.work.maintenance import SWEEP
from cli.environment import read_settings
from cli.failures import run_plainly
from cli.wiring import maintenance


def main(arguments: Sequence[str] | None = None, program: str = "maintain.py") -> int:
    """Return 0 after SIGTERM or SIGINT."""
    argparse.ArgumentParser(prog=program, description=__doc__).parse_args(arguments)
    return run_plainly(maintain)


def maintain() -> None:
    """Run what is due every ten seconds until a signal comes; a failed round is logged, and the next one tries."""
    settings = read_settings()
    log_to_stderr(settings.log_level)
    stops = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    passes = maintenance(settings)
    holder = f"{socket.gethostname()}:{os.getpid()}"
    while True:
        passes.run_leased_or_log(holder)
        if signal.sigtimedwait(stops, SWEEP.total_seconds()) is not None:
            break
    passes.close()


if __name__ == "__main__":
    sys.exit(main())
