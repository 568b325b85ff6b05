"""A spawned worker, or with `pool` or `consume` a resident one, that also knows the handlers that misbehave."""

import sys
from uuid import UUID

from app.logs import log_to_stderr
from cli.environment import read_settings
from cli.failures import run_plainly
from cli.wiring import consumer_supervisor, exec_supervisor, pool_supervisor
from tests.odd_handlers import REGISTRY


def main() -> None:
    settings = read_settings()
    log_to_stderr(settings.log_level)
    if sys.argv[1] == "pool":
        pool_supervisor(settings, sys.argv[2:], REGISTRY).run()
    elif sys.argv[1] == "consume":
        consumer_supervisor(settings, REGISTRY).run()
    else:
        exec_supervisor(settings, UUID(sys.argv[1]), REGISTRY).run()


if __name__ == "__main__":
    sys.exit(run_plainly(main))
