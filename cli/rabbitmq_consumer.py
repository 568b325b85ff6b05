"""Run what the broker distributes, with resident children: `python cli/rabbitmq_consumer.py [--min N] [--max N]`."""

import argparse
import sys
from dataclasses import replace

from app.errors import InvalidSettings
from app.logs import log_to_stderr
from cli.environment import read_settings
from cli.failures import run_plainly
from cli.wiring import consumer_supervisor


def main(arguments: list[str], program: str = "rabbitmq_consumer.py") -> int:
    """Return 0 after a stop in good order, 1 if this worker could not go on."""
    asked = _parser(program).parse_args(arguments)

    def work() -> None:
        settings = read_settings()
        log_to_stderr(settings.log_level)
        most = asked.max or settings.pool_max_children
        fewest = asked.min if asked.min is not None else min(settings.pool_min_children, most)
        if fewest > most:
            raise InvalidSettings([f"--min {fewest} is larger than --max {most}"])
        consumer_supervisor(replace(settings, pool_min_children=fewest, pool_max_children=most)).run()

    return run_plainly(work)


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=program, description=__doc__)
    parser.add_argument("--min", type=int, help="children when idle; by default POOL_MIN_CHILDREN")
    parser.add_argument("--max", type=int, help="children under load; by default POOL_MAX_CHILDREN")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
