"""Options and types of options that several commands have."""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, get_args

import click

from turno.capability import job_filters
from turno.environment import setting
from turno.errors import InvalidPayload
from turno.jobs.converter import payload_text
from turno.jobs.job import Status
from turno.jobs.json_text import NotJson
from turno.jobs.label import Outcome
from turno.jobs.moment import moment_of
from turno.process_name import person
from turno.store.operator.job_search import JobsWanted

by_option = click.option("--by", default=person, help="Name in the audit; by default the user of this shell.")


class Moment(click.ParamType):  # type: ignore[type-arg]  # not generic before click 8.4
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
    click.option("--status", "statuses", multiple=True, type=click.Choice([status.value for status in Status]),
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
    return with_options(command, options())


def options() -> list[Callable[..., Any]]:
    """Return the filters of the core and of the enabled capabilities."""
    declared = job_filters(setting("capabilities"))
    more = (click.option(f"--{name}", f"filter_{name}", multiple=True, help=it.help) for name, it in declared.items())
    return [*FILTERS, *more]


def with_options(command: Callable[..., Any], decorators: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    """Add options and arguments to a command, in this order."""
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


def required_tenant(given: Mapping[str, Any]) -> str:
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
        f"  {'.'.join(filter(None, ('payload', problem['field'])))}: {problem['problem']}" for problem in error.problems
    )
