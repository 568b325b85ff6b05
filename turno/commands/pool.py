"""Run what waits, with resident children: `python cli/worker_pool.py [--queues NAME,…] [--min N] [--max N]`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from turno.commands.resident_worker import run_resident

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turno.worker.supervisor import Supervisor
    from turno.worker.timings import PoolSize


def main(arguments: list[str], program: str = "worker_pool.py") -> int:
    """Return 0 after a stop in good order, 1 if this worker could not go on; with --check, 0 if one is alive."""
    return run_resident(arguments, program, __doc__, _assemble)


def _assemble(queues: Sequence[str], size: PoolSize) -> Supervisor:
    from turno.wiring.workers import pool_worker  # noqa: PLC0415 - a probe loads no driver

    return pool_worker(queues, size)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
