"""The command `turno pool`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turno.commands.resident_worker import resident, run_resident

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turno.worker.supervisor import Supervisor
    from turno.worker.timings import PoolSize


@resident
def pool(**asked: Any) -> None:
    """Claim waiting jobs and run them in resident children until SIGTERM.

    At SIGTERM the worker claims no more jobs, waits TURNO_SHUTDOWN_GRACE_SECONDS for the running jobs, releases the
    others and exits. It also runs the maintenance tasks.
    """
    run_resident(_assemble, **asked)


def _assemble(queues: Sequence[str], size: PoolSize) -> Supervisor:
    from turno.wiring.workers import pool_worker  # noqa: PLC0415 - a probe loads no driver

    return pool_worker(queues, size)
