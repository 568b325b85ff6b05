"""Options and types of options that several commands have."""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, get_args

import click

from turno.capability import job_filters
from turno.environment import read_settings, setting
from turno.errors import InvalidPayload, TurnoError
from turno.jobs.converter import check_payload, payload_text
from turno.jobs.handler import named_handlers
from turno.jobs.job import Priority, Status
from turno.jobs.json_text import NotJson
from turno.jobs.label import Outcome
from turno.jobs.moment import moment_of
from turno.jobs.recurrence import MISSED, InvalidRule
from turno.jobs.recurring_job import RecurringJob
from turno.process_name import person
from turno.store.operator.job_search import JobsWanted

DURATION = re.compile(r"(\d{1,9})([smhd]?)")
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
RULE = ("zone", "missed", "spread", "cron", "every")  # fields of a stored recurring job
by_option = click.option("--by", default=person, help="Name in the audit; by default the user of this shell.")


class Moment(click.ParamType[datetime]):
    """A moment as `turno.jobs.moment` reads it; with `ago` a duration such as 15m ends now."""

    name = "moment"

    def __init__(self, *, ago: bool) -> None:
        self._ago = ago

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return the moment, or fail with the expected forms."""
        if isinstance(value, datetime):
            return value
        text = f"-{value}" if self._ago and re.fullmatch("[0-9]{1,9}[smhd]", value) else str(value)
        try:
            return moment_of(text, datetime.now(UTC))
        except ValueError as problem:
            self.fail(f"{value[:60]!r} {problem}{', or a length such as 15m ago' if self._ago else ''}", param, ctx)


MOMENT, PAST_MOMENT = Moment(ago=False), Moment(ago=True)
FILTERS = (
    click.option("--tenant", "tenants", multiple=True, help="Only this tenant; with --all it may be repeated."),
    click.option("--company", "companies", multiple=True, help="Only tenants of this company; may be repeated."),
    click.option("--status", "statuses", multiple=True, type=click.Choice([one.value for one in Status]),
                 help="Only jobs in this status; may be repeated."),
    click.option("--outcome", "outcomes", multiple=True, type=click.Choice(get_args(Outcome)),
                 help="Only jobs with this outcome; may be repeated. A job that ran to its end may have failed items."),
    click.option("--type", "types", multiple=True, help="Only this job type; may be repeated."),
    click.option("--error", help="Only failures with this error: a group as listed, or its class."),
    click.option("--since", type=PAST_MOMENT, metavar="AGO|TIME",
                 help="Only jobs that ended since; for open jobs: made since."),
    click.option("--until", type=PAST_MOMENT, metavar="AGO|TIME", help="Only jobs that ended before."),
)  # fmt: skip


def filtered(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the filters of jobs to a command; `wanted` makes JobsWanted of their values."""
    return _with(command, options())


def options() -> list[Callable[..., Any]]:
    """Return the filters of the core and of the enabled capabilities."""
    declared = job_filters(setting("capabilities"))
    more = (click.option(f"--{name}", f"filter_{name}", multiple=True, help=it.help) for name, it in declared.items())
    return [*FILTERS, *more]


def _with(command: Callable[..., Any], decorators: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


def wanted(given: Mapping[str, Any]) -> JobsWanted:
    """Return the conditions for jobs by the values of the options."""
    fields = ("tenants", "statuses", "outcomes", "types", "error", "since", "until", "user", "correlation_id", "text")
    return JobsWanted(
        companies=given["companies"] or None,
        filters={
            name.removeprefix("filter_"): value for name, value in given.items() if name.startswith("filter_") and value
        },
        **{name: given[name] for name in fields if name in given},
    )


def one_tenant(given: Mapping[str, Any]) -> str:
    """Return the tenant of a command without --all; raises UsageError unless --tenant is given once."""
    if len(given["tenants"]) != 1:
        raise click.UsageError("say which --tenant, once, or --all")
    return str(given["tenants"][0])


def parsed_payload(text: str) -> Any:
    """Return the payload of an option, or of standard input for `-`; raises BadParameter."""
    try:
        return payload_text(sys.stdin.read() if text == "-" else text)
    except NotJson as problem:
        raise click.BadParameter(str(problem), param_hint="'--payload'") from None


def refused_payload(job_type: str, error: InvalidPayload) -> str:
    """Return the problems of a payload as a message."""
    return f"{job_type} does not take this payload:\n" + "\n".join(
        f"  {'.'.join(filter(None, ('payload', one['field'])))}: {one['problem']}" for one in error.problems
    )


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
    return _with(command, (
        click.option("--cron", metavar="FIELDS", help="Minute, hour, day, month, weekday: '0 3 * * 1-5'."),
        click.option("--every", type=Seconds(), help="Instead of --cron: 15m, 6h, 1d."),
        click.option("--zone", help="Time zone of --cron; UTC by default."),
        click.option("--spread", type=Seconds(), help="Largest delay of a moment; the name decides the delay."),
        click.option("--missed", type=click.Choice(MISSED), help="Jobs of moments without a run of maintenance."),
    ))  # fmt: skip


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a recurring job, but for its type."""
    return _with(command, (
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
