"""The commands that `turno schedule` and `turno template` share, and the options of a recurring job."""

import re
from collections.abc import Callable, Mapping
from getpass import getuser
from typing import Any

import click

from turno.capabilities.schedules.recurrence import MISSED, UNITS, InvalidRule
from turno.capabilities.schedules.recurring_job import RecurringJob, Row
from turno.capabilities.schedules.templates import Opened, RecurringJobs
from turno.commands.options import parsed_payload, with_options
from turno.commands.output import print_message
from turno.environment import read_settings
from turno.errors import TurnoError
from turno.jobs.handler import named_handlers
from turno.jobs.job import Priority

DURATION = re.compile(r"(\d{1,9})([smhd]?)")
RULE = ("zone", "missed", "spread", "cron", "every")  # fields of a stored recurring job
Command = Callable[..., None]


class NotSaved(TurnoError):
    """No change was made; the message has the reason."""


class Seconds(click.ParamType):  # type: ignore[type-arg]  # not generic before click 8.4
    """A number of seconds, or of minutes, hours or days as in 15m, 6h, 1d."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the seconds; fails with the expected forms."""
        match = DURATION.fullmatch(str(value))
        if match is None:
            self.fail(f"{str(value)[:60]!r}: expected a number of seconds, or one as 15m, 6h, 1d", param, ctx)
        return int(match[1]) * UNITS[match[2]]


def rule_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a recurrence rule."""
    return with_options(command, (
        click.option("--cron", metavar="FIELDS", help="Minute, hour, day, month, weekday, delay: '0 3 * * 1-5 +2h'."),
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
        click.option("--priority", type=click.Choice([each.word for each in Priority]), help="Priority of its jobs."),
        click.option("--queue", help="One of the queues of the type; '' for the usual queue of the type."),
    ))  # fmt: skip


def register(
    group: click.Group,
    noun: str,
    scope: Callable[[Command], Command],
    opened: Callable[[str], Opened],
    described: Callable[[Row, str], str],
    *,
    example: str,
) -> None:
    """Add the commands to the group of a `noun`.

    `scope` is the option of each command whose value `opened` takes, with its value in `example`. `described` returns
    the end of the sentence about a saved job.
    """
    usage = f"Example: turno {noun} {{}} {example}nightly".replace("  ", " ")

    @group.command(help=f"Add the {noun} NAME.", epilog=usage.format("add") + " --type send_letters --cron '0 3 * * *'")
    @scope
    @click.option("--type", "job_type", required=True, help="The type of its jobs.")
    @job_options
    @click.option("--user", default=getuser, help="User of its jobs; by default the user of this shell.")
    @click.argument("name")
    def add(*, scope: str, name: str, job_type: str, user: str, **options: Any) -> None:
        with opened(scope) as stored:
            row = _save(stored, name, job_type, user, {"payload": {}} | given_options(options), create=True)
            print_message(f"{name} is added{described(row, stored.slug)}")

    @group.command(
        "set", help=f"Change the given options of the {noun} NAME.", epilog=usage.format("set") + " --every 6h"
    )
    @scope
    @click.option("--type", "job_type", help="The type of its jobs.")
    @job_options
    @click.argument("name")
    def change(*, scope: str, name: str, job_type: str | None, **options: Any) -> None:
        given = given_options(options)
        with opened(scope) as stored:
            row = recurring_job(stored, name)
            changed = _changed(row, given)
            row = _save(stored, name, job_type or row["type"], row["user_id"], changed, create=False)
            print_message(f"{name} is changed{described(row, stored.slug)}")

    def switch(verb: str, about: str, act: Callable[[RecurringJobs, str], bool], done: str) -> None:
        @group.command(verb, help=about, epilog=usage.format(verb))
        @scope
        @click.argument("name")
        def command(*, scope: str, name: str) -> None:
            with opened(scope) as stored:
                _require(stored, name, exists=act(stored, name))
            print_message(f"{name} {done}")

    about = f"Pause the {noun} NAME: it creates no jobs until it is resumed."
    switch("pause", about, lambda stored, name: stored.switch(name, on=False), "is paused")
    about = f"Resume the {noun} NAME, from its next moment on."
    switch("resume", about, lambda stored, name: stored.switch(name, on=True), "fires again")
    switch(
        "remove", f"Remove the {noun} NAME; its past jobs stay.", lambda stored, name: stored.remove(name), "is removed"
    )


def given_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that the command line has; the payload is parsed."""
    given = {field: value for field, value in options.items() if value is not None}
    return given | {"payload": parsed_payload(given["payload"])} if "payload" in given else given


def recurring_job(stored: RecurringJobs, name: str) -> Row:
    """Return a stored recurring job; raises NotSaved for an unknown name."""
    row = stored.find(name)
    _require(stored, name, exists=row is not None)
    return row or {}


def _changed(row: Mapping[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a stored recurring job with the `given` changes; a new rule replaces the old rule whole."""
    kept = {field: row[field] for field in ("payload", "queue", *RULE)} | {"priority": Priority(row["priority"]).word}
    if {"cron", "every"} & given.keys():
        kept |= {"cron": None, "every": None, "spread": None}
    return kept | given


def _save(stored: RecurringJobs, name: str, job_type: str, user: str, given: dict[str, Any], *, create: bool) -> Row:
    """Save a recurring job and return its row; raises NotSaved with all problems."""
    handler = named_handlers(read_settings().handlers).handler(job_type)
    try:
        wanted = RecurringJob.checked(name, handler, user, {"priority": "normal"} | given, stored.slug)
    except InvalidRule as error:
        lines = "\n".join(f"  {field}: {problem}" for field, problem in error.problems)
        raise NotSaved(f"{name[:60]!r} was not saved:\n{lines}") from None
    match stored.save(wanted, create=create, replace=not create):
        case "exists":
            raise NotSaved(f"there is a {stored.noun} {name}; change it by `turno {stored.noun} set`")
        case "full":
            raise NotSaved(f"{stored.slug} has as many schedules as a tenant may have; remove one first")
    return recurring_job(stored, name)


def _require(stored: RecurringJobs, name: str, *, exists: bool) -> None:
    if not exists:
        of, option = (f" of {stored.slug}", f" --tenant {stored.slug}") if stored.slug else ("", "")
        raise NotSaved(f"there is no {stored.noun} {name[:60]!r}{of}; see `turno {stored.noun} list{option}`")
