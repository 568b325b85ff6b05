"""The commands `turno type …`: operators' settings of job types at run time."""

from typing import Any

import click

from turno.commands.output.results import print_message, show
from turno.commands.tenant_settings import alert_terms, given_changes, unset
from turno.environment import read_settings
from turno.errors import TurnoError
from turno.jobs.handler import named_handlers
from turno.process_name import person
from turno.store.operator.run_time_settings import set_type, types_with_code
from turno.wiring.logins import operator_session

HEADERS = (
    "type",
    "paused",
    "cap",
    "jobs a day",
    "alert %",
    "alert min",
    "time limit s",
    "max attempts",
    "retention days",
)


class NoSuchType(TurnoError):
    """No handler has this type."""


@click.group("type")
def job_type() -> None:
    """List and set limits of all jobs of a type, at run time."""


@job_type.command("list", epilog="Example: turno type list --json")
def list_all() -> None:
    """List job types with their settings; values of the code are in brackets, and count where no setting is."""
    settings = read_settings()
    with operator_session(settings) as session:
        rows = types_with_code(session, named_handlers(settings.handlers).handlers, settings.retention_days)
    show(rows, HEADERS, [_line(**row) for row in rows])


@job_type.command("set", epilog="Example: turno type set send_letters --cap 2 --timeout none")
@click.argument("name")
@click.option("--paused/--resumed", default=None, help="Start no job of this type, or start them again.")
@click.option("--cap", type=unset(click.IntRange(1, 32767)), metavar="N|none", help="Largest number of running jobs.")
@click.option(
    "--jobs-per-day",
    "--quota",
    type=unset(click.IntRange(1, 100_000_000)),
    metavar="N|none",
    help="Of it that each tenant may submit.",
)
@click.option("--timeout", type=unset(click.IntRange(1, 604_800)), metavar="SECONDS|none", help="For an attempt.")
@click.option("--max-attempts", type=unset(click.IntRange(1, 1000)), metavar="N|none", help="That may end in an error.")
@click.option(
    "--retention-days", type=unset(click.IntRange(1, 3650)), metavar="N|none", help="For which ended jobs are kept."
)
@alert_terms
@click.option("--by", default=person, help="Operator's name in the audit; by default the user of this shell.")
def change(name: str, by: str, **options: Any) -> None:
    """Set limits for all jobs of the type NAME, of every tenant; `none` restores the value of the code."""
    settings = read_settings()
    changes = given_changes(options)
    with operator_session(settings) as session:
        rows = types_with_code(session, named_handlers(settings.handlers).handlers, settings.retention_days)
        known = [row["type"] for row in rows]
        if name not in known:
            raise NoSuchType(f"no handler has the type {name[:60]!r}; known are: {', '.join(known) or 'none'}")
        set_type(session, name, changes, by=by)
    print_message(f"type {name}: {', '.join(f'{field} {value}' for field, value in changes.items())}", **changes)


def _line(*, set: dict[str, Any], code: dict[str, Any], **row: Any) -> tuple[Any, ...]:  # noqa: A002 - of the row
    return (*row.values(), *(_both(set[term], code[term]) for term in code))


def _both(value: Any, code: Any) -> str:
    return f"({code})" if value is None else f"{value} ({code})"
