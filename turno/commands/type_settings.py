"""The commands `turno type …`: operators' settings of job types at run time."""

from typing import Any

import click

from turno.commands.output.results import print_message, show
from turno.commands.tenant_settings import alert_terms, given_changes, unset
from turno.environment import read_settings
from turno.errors import TurnoError
from turno.jobs.named_handlers import named_handlers
from turno.process_name import person
from turno.store.operator.run_time_settings import ALERT_TERMS, list_types, set_type
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

# Settings that a handler's class does not have.
BARE = ("paused_at", "cap", "jobs_per_day", *ALERT_TERMS)


class NoSuchType(TurnoError):
    """No handler has this type."""


@click.group("type")
def job_type() -> None:
    """List and set limits of all jobs of a type, at run time."""


@job_type.command("list", epilog="Example: turno type list --json")
def list_all() -> None:
    """List job types with their settings; values of the code are in brackets, and count where no setting is."""
    settings = read_settings()
    handlers = {handler.type: handler for handler in named_handlers(settings.handlers).handlers}
    with operator_session(settings) as session:
        stored = {row["type"]: row for row in list_types(session)}
    rows = []
    for name in sorted(handlers.keys() | stored.keys()):
        handler, row = handlers.get(name), stored.get(name, {})
        code = {
            "timeout": handler and handler.timeout,
            "max_attempts": handler and handler.retry.max_attempts,
            "retention_days": settings.retention_days,
        }
        set_here = {field: row.get(field) for field in code}
        rows.append({"type": name} | {field: row.get(field) for field in BARE} | {"set": set_here, "code": code})
    show(rows, HEADERS, [_line(row) for row in rows])


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
        known = {handler.type for handler in named_handlers(settings.handlers).handlers}
        known |= {row["type"] for row in list_types(session)}
        if name not in known:
            raise NoSuchType(f"no handler has the type {name[:60]!r}; known are: {', '.join(sorted(known)) or 'none'}")
        set_type(session, name, changes, by=by)
    print_message(f"type {name}: {', '.join(f'{field} {value}' for field, value in changes.items())}", **changes)


def _line(row: dict[str, Any]) -> tuple[Any, ...]:
    terms = (_both(row["set"][field], row["code"][field]) for field in ("timeout", "max_attempts", "retention_days"))
    return (row["type"], *(row[field] for field in BARE), *terms)


def _both(value: Any, code: Any) -> str:
    return f"({code})" if value is None else f"{value} ({code})"
