"""A worker for tests, whose handlers are those of a registry it is told.

`python -m cli.testing.worker REGISTRY JOB_ID`, or `pool` or `consume` instead of a job.
"""

import sys
from importlib import import_module
from uuid import UUID

from app.jobs.registry import Registry
from app.logs import log_to_stderr
from cli.environment import read_settings
from cli.failures import run_plainly
from cli.sealed import CONSUMERS_NEED, seal
from cli.wiring import consumer_supervisor, exec_supervisor, pool_supervisor


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
        settings, registry = read_settings(), load_registry(place)
        log_to_stderr(settings.log_level)
        if what == "pool":
            pool_supervisor(settings, queues, registry).run()
        elif what == "consume":
            consumer_supervisor(settings, queues, registry).run()
        else:
            exec_supervisor(settings, UUID(what), registry).run()

    return run_plainly(work)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
