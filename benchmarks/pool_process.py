"""A real `turno pool` whose only handlers are those of the benchmarks' own that are named, by type and class."""

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
    pool_supervisor(settings, (), Registry(dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True)))).run()


if __name__ == "__main__":
    sys.exit(run_plainly(main))
