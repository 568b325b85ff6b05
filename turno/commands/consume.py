"""Run what RabbitMQ distributes, with resident children: `python cli/rabbitmq_consumer.py [--queues NAME,…] …`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from turno.commands.resident_worker import run_resident
from turno.without_secrets import CONSUMERS_NEED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turno.worker.supervisor import Supervisor
    from turno.worker.timings import PoolSize


def main(arguments: list[str], program: str = "rabbitmq_consumer.py") -> int:
    """Return 0 after a stop in good order, 1 if this worker could not go on; with --check, 0 if one is alive."""
    return run_resident(arguments, program, __doc__, _assemble, needs=CONSUMERS_NEED)


def _assemble(queues: Sequence[str], size: PoolSize) -> Supervisor:
    from turno.wiring.workers import consumer_worker  # noqa: PLC0415 - a probe loads no driver

    return consumer_worker(queues, size)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
