"""The options that every resident worker takes, and how it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from turno.commands.alive_check import assert_alive
from turno.environment import public_settings, read_settings
from turno.errors import InvalidSettings
from turno.logs import log_to_stderr
from turno.without_secrets import RESIDENTS_NEED, seal
from turno.worker.timings import PoolSize

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from turno.worker.supervisor import Supervisor

    Assemble = Callable[[Sequence[str], PoolSize], Supervisor]


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


OPTIONS = (
    click.option("--queues", type=_names, metavar="NAME,…", default="", help="Queues to serve; all by default."),
    click.option("--min", "fewest", type=click.IntRange(0, 256), help="Children when idle, for TURNO_MIN_CHILDREN."),
    click.option("--max", "most", type=click.IntRange(1, 256), help="Children under load, for TURNO_MAX_CHILDREN."),
    click.option("--check", is_flag=True, help="Only say whether the worker that touches TURNO_ALIVE_FILE is alive."),
)


def resident(function: Callable[..., Any]) -> click.Command:
    """Make a command of a function, with the options of every resident worker."""
    for option in reversed(OPTIONS):
        function = option(function)
    return click.command()(function)


def run_resident(
    assemble: Assemble,
    *,
    queues: Sequence[str],
    fewest: int | None,
    most: int | None,
    check: bool,
    needs: Sequence[str] = RESIDENTS_NEED,
) -> None:
    """Run a worker until it is stopped; with `check` only say whether one is alive.

    `assemble` is given the queues to serve, where none named means all, and how many children there are to be. `needs`
    are the secrets it works with.
    """
    if check:
        assert_alive(read_settings())
        return
    seal(*needs)
    settings = public_settings()
    log_to_stderr(settings.log_level, settings.redact)
    most = most or settings.max_children
    fewest = fewest if fewest is not None else min(settings.min_children, most)
    if fewest > most:
        raise InvalidSettings([f"--min {fewest} is larger than --max {most}"])
    assemble(queues, PoolSize(minimum=fewest, maximum=most, reserve=settings.reserve_children)).run()
