"""A real `turno pool` whose only handlers are those of the benchmarks' own that are named, by type and class."""

from __future__ import annotations

import sys

from app.jobs.registry import Registry
from app.logs import log_to_stderr
from cli.environment import public_settings
from cli.output.failures import run_plainly
from cli.worker_wiring import pool_worker


def main() -> None:
    """Work until a signal comes."""
    log_to_stderr(public_settings().log_level)
    pool_worker((), Registry(dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True)))).run()


if __name__ == "__main__":
    sys.exit(run_plainly(main))
