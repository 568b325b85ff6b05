"""A real `turno pool` whose only handler is the benchmarks' own."""

from __future__ import annotations

import sys

from app.jobs.registry import Registry
from app.logs import log_to_stderr
from cli.environment import read_settings
from cli.failures import run_plainly
from cli.wiring import pool_supervisor


def main() -> None:
    """Work until a signal comes."""
    settings = read_settings()
    log_to_stderr(settings.log_level)
    pool_supervisor(settings, (), Registry({"ring": "benchmarks.ring:Ring"})).run()


if __name__ == "__main__":
    sys.exit(run_plainly(main))
