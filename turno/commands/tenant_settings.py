"""The command `turno tenant set`."""

from collections.abc import Callable
from typing import Any

import click

from turno.commands.output.results import print_message
from turno.environment import read_settings
from turno.process_name import person
from turno.store.operator.run_time_settings import set_tenant
from turno.tenancy.identity.directory import UnknownTenant
from turno.wiring.logins import operator_session

NONE = "none"


def unset(kind: click.ParamType[Any]) -> click.ParamType[Any]:
    """Return a type that accepts the values of `kind`, and `none` to remove the value."""

    class OrNone(click.ParamType[Any]):
        name = kind.name

        def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
            """Return the value, or NONE."""
            return NONE if value == NONE else kind.convert(value, param, ctx)

    return OrNone()


def given_changes(options: dict[str, Any]) -> dict[str, Any]:
    """Return the given options, None for `none`; raises UsageError without options."""
    changes = {name: None if value == NONE else value for name, value in options.items() if value is not None}
    if not changes:
        raise click.UsageError("no setting is given: add an option of --help")
    return changes


def alert_terms(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say from when on alerts are sent."""
    percent = click.option(
        "--alert-failure-percent",
        type=unset(click.FloatRange(0, 100)),
        metavar="N|none",
        help="Percentage of failed jobs that raises an alert; 10 by default.",
    )
    minutes = click.option(
        "--alert-wait-minutes",
        type=unset(click.IntRange(1, 10_080)),
        metavar="N|none",
        help="For which the oldest job may wait before there is an alert; 5 where nothing is set.",
    )
    return percent(minutes(command))


@click.command("set", epilog="Example: turno tenant set suc0001 --cap 4 --weight 2")
@click.argument("slug")
@click.option("--paused/--resumed", default=None, help="Start none of its jobs, or start them again.")
@click.option("--weight", type=click.IntRange(1, 100), help="Its share of the workers, beside other tenants' weights.")
@click.option("--cap", type=unset(click.IntRange(1, 32767)), metavar="N|none", help="Largest number of running jobs.")
@click.option(
    "--jobs-per-day",
    type=unset(click.IntRange(1, 100_000_000)),
    metavar="N|none",
    help="Submissions of all its users per day, in place of jobs_per_day_per_tenant of TURNO_LIMITS.",
)
@alert_terms
@click.option("--by", default=person, help="Operator's name in the audit; by default the user of this shell.")
def set_settings(slug: str, by: str, **options: Any) -> None:
    """Set limits of the tenant SLUG at run time; `turno backend set` changes its backend."""
    changes = given_changes(options)
    with operator_session(read_settings()) as session:
        if not set_tenant(session, slug, changes, by=by):
            raise UnknownTenant(slug)
    print_message(f"tenant {slug}: {', '.join(f'{field} {value}' for field, value in changes.items())}", **changes)
