"""The options that say which jobs, of one tenant or of many, a command is about."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from turno.jobs.job import Status
from turno.store.operator.job_search import JobsWanted

if TYPE_CHECKING:
    from collections.abc import Callable

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
LONGEST_AGO = timedelta(days=36_500)


class Moment(click.ParamType[datetime]):
    """A moment as a time ago such as 90s, 15m, 1h or 2d, or with its date and offset from UTC."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return the moment, or fail with the option's name."""
        if isinstance(value, datetime):
            return value
        moment = None
        if ago := re.fullmatch(r"([0-9]{1,9})([smhd])", str(value)):
            length = timedelta(**{UNITS[ago[2]]: int(ago[1])})
            moment = datetime.now(UTC) - length if length <= LONGEST_AGO else None
        else:
            with suppress(ValueError):
                moment = datetime.fromisoformat(str(value))
        if moment is None or moment.tzinfo is None:
            self.fail(f"{value!r} is neither 15m, 1h or 2d ago nor a time such as 2026-11-22T20:00Z", param, ctx)
        return moment


MOMENT = Moment()
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
    click.option("--type", "types", multiple=True, help="Only this job type; may be repeated."),
    click.option("--error", help="Only what failed with this error: a group as listed, or its class."),
    click.option(
        "--since", type=MOMENT, metavar="AGO|TIME", help="Only what ended since; of open jobs, what was made since."
    ),
    click.option("--until", type=MOMENT, metavar="AGO|TIME", help="Only what ended before."),
)


def filtered(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options; it takes their values by name, and `wanted` makes JobsWanted of them."""
    for option in reversed(FILTERS):
        command = option(command)
    return command


def wanted(given: dict[str, Any]) -> JobsWanted:
    """Return which jobs the options say."""
    return JobsWanted(
        companies=given["companies"] or None,
        tenants=given["tenants"],
        statuses=given["statuses"],
        types=given["types"],
        error=given["error"],
        since=given["since"],
        until=given["until"],
    )


def one_tenant(given: dict[str, Any]) -> str:
    """Return the tenant that was named; raises UsageError unless it was exactly one, and no other filter."""
    if len(given["tenants"]) != 1:
        raise click.UsageError("say which --tenant, once, or --all")
    return str(given["tenants"][0])
