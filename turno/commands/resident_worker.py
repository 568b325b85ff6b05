"""What every resident worker is told on its command line, and how it begins."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from turno.commands.alive_check import assert_alive
from turno.commands.output.failures import run_plainly
from turno.environment import public_settings, read_settings
from turno.errors import InvalidSettings
from turno.logs import log_to_stderr
from turno.without_secrets import WORKERS_NEED, seal
from turno.worker.timings import PoolSize

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from turno.worker.supervisor import Supervisor

    Assemble = Callable[[Sequence[str], PoolSize], Supervisor]


def run_resident(
    arguments: list[str], program: str, about: str | None, assemble: Assemble, *, needs: Sequence[str] = WORKERS_NEED
) -> int:
    """Return 0 after a stop in good order, 1 if this worker could not go on; with --check, 0 if one is alive.

    `assemble` is given the queues to serve, where none named means all, and how many children there are to be. `needs`
    are the secrets it works with.
    """
    asked = _parser(program, about).parse_args(arguments)

    def work() -> None:
        if asked.check:
            assert_alive(read_settings())
            return
        seal(*needs)
        settings = public_settings()
        log_to_stderr(settings.log_level)
        most = asked.max or settings.pool_max_children
        fewest = asked.min if asked.min is not None else min(settings.pool_min_children, most)
        if fewest > most:
            raise InvalidSettings([f"--min {fewest} is larger than --max {most}"])
        assemble(asked.queues, PoolSize(fewest=fewest, most=most, reserve=settings.reserve_children)).run()

    return run_plainly(work)


def _parser(program: str, about: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=program, description=about)
    parser.add_argument("--queues", type=_names, default=(), help="queues to serve, by comma; all by default")
    parser.add_argument("--min", type=int, help="children when idle; by default POOL_MIN_CHILDREN")
    parser.add_argument("--max", type=int, help="children under load; by default POOL_MAX_CHILDREN")
    parser.add_argument("--check", action="store_true", help="only say whether the one that touches ALIVE_FILE lives")
    return parser


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
