"""The options of commands that save a recurring job: its rule, its payload, its priority and its queue."""

import re
from collections.abc import Callable
from typing import Any

import click

from turno.capabilities.schedules.recurrence import MISSED
from turno.commands.options import with_options
from turno.jobs.job import Priority

DURATION = re.compile(r"(\d{1,9})([smhd]?)")
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


class Seconds(click.ParamType[int]):
    """A number of seconds, or of minutes, hours or days as in 15m, 6h, 1d."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the seconds; fails with the expected forms."""
        found = DURATION.fullmatch(str(value))
        if found is None:
            self.fail(f"{str(value)[:60]!r}: expected a number of seconds, or one as 15m, 6h, 1d", param, ctx)
        return int(found[1]) * UNITS[found[2]]


def rule_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a recurrence rule."""
    return with_options(command, (
        click.option("--cron", metavar="FIELDS", help="Minute, hour, day, month, weekday: '0 3 * * 1-5'."),
        click.option("--every", type=Seconds(), help="Instead of --cron: 15m, 6h, 1d."),
        click.option("--zone", help="Time zone of --cron; UTC by default."),
        click.option("--spread", type=Seconds(), help="Largest delay of a moment; the name decides the delay."),
        click.option("--missed", type=click.Choice(MISSED), help="Jobs of moments without a run of maintenance."),
    ))  # fmt: skip


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a recurring job, but for its type."""
    return with_options(command, (
        rule_options,
        click.option("--payload", metavar="JSON", help="Payload of its jobs; `-` reads standard input."),
        click.option("--priority", type=click.Choice([one.word for one in Priority]), help="Priority of its jobs."),
        click.option("--queue", help="One of the queues of the type; '' for the usual queue of the type."),
    ))  # fmt: skip
