"""A worker for tests, whose handlers are those of a registry it is told.

`python -m cli.testing.worker REGISTRY JOB_ID`, or `pool` or `consume` instead of a job.
"""

import sys
from importlib import import_module
from uuid import UUID

from app.jobs.registry import Registry
from app.logs import log_to_stderr
from cli.environment import public_settings
from cli.output.failures import run_plainly
from cli.without_secrets import CONSUMERS_NEED, seal
from cli.worker_wiring import consumer_worker, exec_worker, pool_worker


def load_registry(place: str) -> Registry:
    """Return the registry at `package.module:NAME`, or what a function of that name builds."""
    module, name = place.split(":")
    found = getattr(import_module(module), name)
    return found if isinstance(found, Registry) else found()


def main(arguments: list[str]) -> int:
    """Run like the product's own worker; a resident may be followed by the queues it serves."""
    place, what, *queues = arguments

    def work() -> None:
        seal(*CONSUMERS_NEED)
        log_to_stderr(public_settings().log_level)
        registry = load_registry(place)
        if what == "pool":
            pool_worker(queues, registry).run()
        elif what == "consume":
            consumer_worker(queues, registry).run()
        else:
            exec_worker(UUID(what), registry).run()

    return run_plainly(work)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
