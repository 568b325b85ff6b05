"""The command `turno consume`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turno.commands.resident_worker import resident, run_resident
from turno.without_secrets import CONSUMERS_NEED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turno.worker.supervisor import Supervisor
    from turno.worker.timings import PoolSize


@resident
def consume(**asked: Any) -> None:
    """Run the jobs that RabbitMQ distributes in resident children until SIGTERM.

    With --queues it reads no messages and claims the jobs of those queues from the database, as `turno pool` does.
    """
    run_resident(_assemble, needs=CONSUMERS_NEED, **asked)


def _assemble(queues: Sequence[str], size: PoolSize) -> Supervisor:
    from turno.wiring.workers import consumer_worker  # noqa: PLC0415 - a probe loads no driver

    return consumer_worker(queues, size)
