"""The commands `turno tenant set` and `turno type …`: settings by operators at run time."""

from collections.abc import Callable
from typing import Any

import click

from turno.commands.options import by_option
from turno.commands.output import print_message, show
from turno.environment import read_settings
from turno.errors import TurnoError
from turno.jobs.handler import named_handlers
from turno.store.operator.run_time_settings import queues_of_types, set_tenant, set_type, types_with_code
from turno.tenancy.identity.directory import UnknownTenant
from turno.wiring.logins import operator_session

NONE = "none"
TYPE_HEADERS = (
    *("type", "paused", "cap", "jobs a day", "alert %", "alert min", "time limit s", "max attempts", "retention days"),
)
CAP, JOBS_PER_DAY = click.IntRange(1, 32767), click.IntRange(1, 100_000_000)


class NoSuchQueue(TurnoError):
    """No type allows this queue for its jobs."""


class NoSuchType(TurnoError):
    """No handler has this type."""


def _setting(name: str, kind: "click.ParamType[Any]", about: str, metavar: str = "N|none") -> Callable[..., Any]:
    """Return an option with the values of `kind`, and `none` to remove the value."""

    class OrNone(click.ParamType):  # type: ignore[type-arg]  # not generic before click 8.4
        name = kind.name

        def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
            """Return the value, or NONE."""
            return NONE if value == NONE else kind.convert(value, param, ctx)

    return click.option(*name.split(), type=OrNone(), metavar=metavar, help=about)


def _alert_terms(command: Callable[..., Any]) -> Callable[..., Any]:
    for add in (
        _setting("--alert-wait-minutes", click.IntRange(1, 10_080),
                 "Wait of the oldest job that raises an alert, in minutes; 5 by default."),
        _setting("--alert-failure-percent", click.FloatRange(0, 100),
                 "Percentage of failed jobs that raises an alert; 10 by default."),
    ):  # fmt: skip
        command = add(command)
    return command


def _changes(options: dict[str, Any]) -> dict[str, Any]:
    """Return the given options, None for `none`; raises UsageError without options."""
    changes = {name: None if value == NONE else value for name, value in options.items() if value is not None}
    if not changes:
        raise click.UsageError("no setting is given: add an option of --help")
    return changes


def _print(subject: str, changes: dict[str, Any]) -> None:
    print_message(f"{subject}: {', '.join(described(*change) for change in changes.items())}", **changes)


def described(name: str, value: Any) -> str:
    """Return a changed setting as text, in the words of its option."""
    if name == "paused":
        return "paused" if value else "resumed"
    return f"{name.replace('_', '-')} {NONE if value is None else value}"


@click.command("set", epilog="Example: turno tenant set suc0001 --cap 4 --weight 2")
@click.argument("slug")
@click.option("--paused/--resumed", default=None, help="Start none of its jobs, or start them again.")
@click.option("--weight", type=click.IntRange(1, 100), help="Its share of the workers, beside other tenants' weights.")
@_setting("--cap", CAP, "Largest number of running jobs.")
@_setting("--jobs-per-day", JOBS_PER_DAY,
          "Submissions of all its users per day, in place of jobs_per_day_per_tenant of TURNO_LIMITS.")  # fmt: skip
@_setting("--queue", click.STRING,
          "Queue of its jobs, for example of a slower plan: of the types that have it among their other_queues.",
          "NAME|none")  # fmt: skip
@_alert_terms
@by_option
def set_settings(slug: str, by: str, **options: Any) -> None:
    """Set limits of the tenant SLUG at run time; `turno backend set` changes its backend."""
    changes = _changes(options)
    with operator_session(read_settings()) as operator:
        queue = changes.get("queue")
        if queue is not None and queue not in (known := queues_of_types(operator)):
            raise NoSuchQueue(
                f"no type allows the queue {queue[:63]!r}: known are {', '.join(sorted(known)) or 'none'}; add it to"
                " other_queues of a handler"
            )
        if not set_tenant(operator, slug, changes, by=by):
            raise UnknownTenant(slug)
    _print(f"tenant {slug}", changes)


@click.group("type")
def job_type() -> None:
    """List and set limits of all jobs of a type, at run time."""


@job_type.command("list", epilog="Example: turno type list --json")
def list_all() -> None:
    """List job types with their settings; values of the code are in brackets, and count where no setting is."""
    rows = _types()
    show(rows, TYPE_HEADERS, [_line(**row) for row in rows])


@job_type.command("set", epilog="Example: turno type set send_letters --cap 2 --timeout none")
@click.argument("name")
@click.option("--paused/--resumed", default=None, help="Start no job of this type, or start them again.")
@_setting("--cap", CAP, "Largest number of running jobs.")
@_setting("--jobs-per-day --quota", JOBS_PER_DAY, "Submissions of each tenant per day.")
@_setting("--timeout", click.IntRange(1, 604_800), "Time limit of an attempt, in seconds.", "SECONDS|none")
@_setting("--max-attempts", click.IntRange(1, 1000), "Number of attempts that may end in an error.")
@_setting("--retention-days", click.IntRange(1, 3650), "Days until ended jobs are purged.")
@_alert_terms
@by_option
def change(name: str, by: str, **options: Any) -> None:
    """Set limits for all jobs of the type NAME, of every tenant; `none` restores the value of the code."""
    changes = _changes(options)
    known = [row["type"] for row in _types()]
    if name not in known:
        raise NoSuchType(f"no handler has the type {name[:60]!r}; known are: {', '.join(known) or 'none'}")
    with operator_session(read_settings()) as operator:
        set_type(operator, name, changes, by=by)
    _print(f"type {name}", changes)


def _types() -> list[dict[str, Any]]:
    settings = read_settings()
    with operator_session(settings) as operator:
        return types_with_code(operator, named_handlers(settings.handlers).handlers, settings.retention_days)


def _line(*, set: dict[str, Any], code: dict[str, Any], **row: Any) -> tuple[Any, ...]:  # noqa: A002 - of the row
    terms = (f"({code[term]})" if set[term] is None else f"{set[term]} ({code[term]})" for term in code)
    return (*row.values(), *terms)
