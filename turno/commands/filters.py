"""The options that say which jobs, of one tenant or of many, a command is about."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import click

from turno.capability import job_filters
from turno.environment import setting
from turno.jobs.job import Status
from turno.jobs.label import Outcome
from turno.jobs.moment import moment_of
from turno.store.operator.job_search import JobsWanted

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
LONGEST_AGO = timedelta(days=36_500)


class Moment(click.ParamType[datetime]):
    """A moment as `turno.jobs.moment` reads it; with `ago` a length such as 15m is that long ago."""

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
    click.option("--tenant", "tenants", multiple=True, help="Only this tenant's; with --all it may be repeated."),
    click.option("--company", "companies", multiple=True, help="Only the tenants of this company; may be repeated."),
    click.option(
        "--status",
        "statuses",
        multiple=True,
        type=click.Choice([status.value for status in Status]),
        help="Only in this status; may be repeated.",
    ),
    click.option(
        "--outcome",
        "outcomes",
        multiple=True,
        type=click.Choice(get_args(Outcome)),
        help="Only jobs with this outcome; may be repeated. A job that ran to its end may have failed items.",
    ),
    click.option("--type", "types", multiple=True, help="Only this job type; may be repeated."),
    click.option("--error", help="Only failures with this error: a group as listed, or its class."),
    click.option(
        "--since", type=PAST_MOMENT, metavar="AGO|TIME", help="Only jobs that ended since; for open jobs: made since."
    ),
    click.option("--until", type=PAST_MOMENT, metavar="AGO|TIME", help="Only jobs that ended before."),
)


def filtered(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options; it takes their values by name, and `wanted` makes JobsWanted of them."""
    for option in reversed(options()):
        command = option(command)
    return command


def options() -> list[Callable[..., Any]]:
    """Return the options of the core and of the enabled capabilities."""
    declared = job_filters(setting("capabilities"))
    more = (click.option(f"--{name}", f"filter_{name}", multiple=True, help=it.help) for name, it in declared.items())
    return [*FILTERS, *more]


def filters_of(given: dict[str, Any]) -> dict[str, Any]:
    """Return the values of the options of capabilities, by the name of the filter."""
    return {
        name.removeprefix("filter_"): value for name, value in given.items() if name.startswith("filter_") and value
    }


def wanted(given: dict[str, Any]) -> JobsWanted:
    """Return which jobs the options say."""
    return JobsWanted(
        companies=given["companies"] or None,
        tenants=given["tenants"],
        statuses=given["statuses"],
        outcomes=given["outcomes"],
        types=given["types"],
        error=given["error"],
        since=given["since"],
        until=given["until"],
        filters=filters_of(given),
    )


def one_tenant(given: dict[str, Any]) -> str:
    """Return the tenant that was named; raises UsageError unless it was exactly one, and no other filter."""
    if len(given["tenants"]) != 1:
        raise click.UsageError("say which --tenant, once, or --all")
    return str(given["tenants"][0])
