"""The options of commands that save a recurring job: its rule, its payload, its priority and its queue."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import click

from turno.capabilities.schedules.recurrence import MISSED, InvalidRule
from turno.capabilities.schedules.recurring_job import RecurringJob
from turno.commands.options import parsed_payload, refused_payload, with_options
from turno.environment import read_settings
from turno.errors import InvalidPayload, TurnoError
from turno.jobs.converter import check_payload
from turno.jobs.handler import named_handlers
from turno.jobs.job import Priority

DURATION = re.compile(r"(\d{1,9})([smhd]?)")
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
RULE = ("zone", "missed", "spread", "cron", "every")  # fields of a stored recurring job


class NotSaved(TurnoError):
    """A recurring job was not saved; the message has the reason."""


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


def given_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that the command line has; the payload is parsed."""
    given = {field: value for field, value in options.items() if value is not None}
    return given | {"payload": parsed_payload(given["payload"])} if "payload" in given else given


def changed_options(row: Mapping[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a stored recurring job with the `given` changes; a new rule replaces the old rule whole."""
    kept = {field: row[field] for field in ("payload", "queue", *RULE)} | {"priority": Priority(row["priority"]).word}
    if {"cron", "every"} & given.keys():
        kept |= {"cron": None, "every": None, "spread": None}
    return kept | given


def recurring_job(name: str, job_type: str, user: str, given: dict[str, Any], tenant: str) -> RecurringJob:
    """Return a checked recurring job; raises NotSaved with all problems."""
    handler = named_handlers(read_settings().handlers).handler(job_type)
    try:
        wanted = RecurringJob(
            name=name,
            handler=handler,
            user_id=user,
            **given
            | {
                "payload": check_payload(handler, given["payload"]),
                "priority": Priority[given.get("priority", "normal").upper()],
                "queue": given.get("queue") or None,
            },
        )
        wanted.rule(tenant)
    except InvalidPayload as error:
        raise NotSaved(refused_payload(job_type, error)) from None
    except InvalidRule as error:
        lines = "\n".join(f"  {field}: {problem}" for field, problem in error.problems)
        raise NotSaved(f"{name[:60]!r} was not saved:\n{lines}") from None
    return wanted
