"""The commands `turno schedule …`: jobs that are made again and again."""

from datetime import UTC, datetime
from getpass import getuser
from itertools import islice
from typing import Any

import click

from turno.capabilities.schedules import stored
from turno.capabilities.schedules.listed import all_schedules
from turno.capabilities.schedules.options import (
    changed_options,
    given_options,
    job_options,
    recurring_job,
    rule_options,
)
from turno.capabilities.schedules.recurrence import rule_of
from turno.capabilities.schedules.recurring_job import stored_rule
from turno.commands.output import print_message, show, text
from turno.commands.tenant_session import TenantSession, session_of
from turno.environment import read_settings
from turno.errors import TurnoError
from turno.wiring.logins import operator_session

HEADERS = ("tenant", "name", "type", "queue", "when", "zone", "next", "last", "state")
MOST = 1000


class ScheduleRefused(TurnoError):
    """No change was made; the message has the reason."""


tenant_option = click.option("--tenant", required=True, help="Tenant of the schedule.")


@click.group()
def schedule() -> None:
    """Make jobs again and again: add, list, change, pause, resume, remove and preview schedules."""


@schedule.command(epilog="Example: turno schedule add --tenant suc0001 nightly --type send_letters --cron '0 3 * * *'")
@tenant_option
@click.option("--type", "job_type", required=True, help="The type of its jobs.")
@job_options
@click.option("--user", default=getuser, help="User of its jobs; by default the user of this shell.")
@click.argument("name")
def add(*, tenant: str, job_type: str, name: str, user: str, **options: Any) -> None:
    """Add the schedule NAME."""
    given = {"payload": {}} | given_options(options)
    with session_of(tenant) as session:
        _save(session, name, job_type, user, given, create=True)


@schedule.command("set", epilog="Example: turno schedule set --tenant suc0001 nightly --priority low")
@tenant_option
@click.option("--type", "job_type", help="The type of its jobs.")
@job_options
@click.argument("name")
def change(*, tenant: str, job_type: str | None, name: str, **options: Any) -> None:
    """Change the given options of the schedule NAME; jobs for future moments are created anew."""
    given = given_options(options)
    with session_of(tenant) as session:
        row = _found(session, name)
        changed = changed_options(row, given)
        _save(session, name, job_type or row["type"], row["user_id"], changed, create=False)


@schedule.command("list", epilog="Example: turno schedule list --all --json")
@click.option("--tenant", help="Tenant of the schedules.")
@click.option("--all", "everybody", is_flag=True, help="Schedules of every tenant.")
def list_all(*, tenant: str | None, everybody: bool) -> None:
    """List the schedules of a tenant, or of all."""
    if everybody == (tenant is not None):
        raise click.UsageError("say either --tenant SLUG or --all")
    if tenant is None:
        with operator_session(read_settings()) as operator:
            rows = all_schedules(operator)
    else:
        with session_of(tenant) as session:
            rows = session.read(lambda reader: stored.search(reader, None, limit=MOST))
            rows = [row | {"slug": tenant, "next_at": _next(row, session)} for row in rows]
    show(rows, HEADERS, [_line(row) for row in rows])


@schedule.command(epilog="Example: turno schedule pause --tenant suc0001 nightly")
@tenant_option
@click.argument("name")
def pause(*, tenant: str, name: str) -> None:
    """Pause the schedule NAME: it makes no jobs until it is resumed."""
    with session_of(tenant) as session:
        _print_verdict(
            stored.switch(session.connection, session.tenant, name, on=False, only=None), name, tenant, "is paused"
        )


@schedule.command(epilog="Example: turno schedule resume --tenant suc0001 nightly")
@tenant_option
@click.argument("name")
def resume(*, tenant: str, name: str) -> None:
    """Let the schedule NAME fire again, from its next moment on."""
    with session_of(tenant) as session:
        _print_verdict(
            stored.switch(session.connection, session.tenant, name, on=True, only=None), name, tenant, "fires again"
        )


@schedule.command(epilog="Example: turno schedule remove --tenant suc0001 nightly")
@tenant_option
@click.argument("name")
def remove(*, tenant: str, name: str) -> None:
    """Remove the schedule NAME; its past jobs stay."""
    with session_of(tenant) as session:
        gone = stored.remove(session.connection, session.tenant, name, only=None)
    _print_verdict("changed" if gone else "unknown", name, tenant, "is removed")


@schedule.command("next", epilog="Example: turno schedule next --every 6h --count 3")
@click.option("--tenant", help="Tenant of the schedule; without it the times are previewed.")
@rule_options
@click.option("--count", type=click.IntRange(1, 100), default=5, show_default=True, help="Number of moments.")
@click.argument("name", required=False)
def preview(*, tenant: str | None, name: str | None, count: int, **options: Any) -> None:
    """Show the next moments, in UTC and in its zone: of the schedule NAME, or of --cron or --every."""
    given = given_options(options)
    if tenant is not None and name is not None and not given:
        with session_of(tenant) as session:
            row = _found(session, name)
            zone, moments = row["zone"], stored_rule(row, session.tenant.slug).after(row["now"])
    elif given and tenant is None:
        zone = given.get("zone", "UTC")
        usual = {"cron": None, "every": None, "zone": zone, "spread": 0, "missed": "once"}
        moments = rule_of(**(usual | given), name=name or "", tenant="").after(datetime.now(UTC))
    else:
        raise click.UsageError("say either --tenant SLUG NAME, or --cron or --every")
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - read by this command alone

    rows = [(moment, moment.astimezone(ZoneInfo(zone)).isoformat()) for moment in islice(moments, count)]
    show([{"utc": utc, "local": local} for utc, local in rows], ("utc", zone), rows)


def _save(session: TenantSession, name: str, job_type: str, user: str, given: dict[str, Any], *, create: bool) -> None:
    wanted = recurring_job(name, job_type, user, given, session.tenant.slug)
    word = stored.save(session.connection, session.tenant, wanted, only=None, create=create, replace=not create)
    row = _found(session, name)
    match word:
        case "exists":
            raise ScheduleRefused(f"{session.tenant.slug} has a schedule {name}; change it by `turno schedule set`")
        case "full":
            raise ScheduleRefused(f"{session.tenant.slug} has {stored.MOST_SCHEDULES} schedules; remove one first")
    moment = _next(row, session)
    print_message(f"{name} is {'added' if create else 'changed'}: {f'next at {text(moment)}' if moment else 'paused'}")


def _found(session: TenantSession, name: str) -> dict[str, Any]:
    row: dict[str, Any] | None = session.read(lambda reader: stored.find(reader, name, None))
    if row is None:
        raise _unknown(name, session.tenant.slug)
    return row


def _next(row: dict[str, Any], session: TenantSession) -> datetime | None:
    if row["paused_at"] is not None:
        return None
    return stored_rule(row, session.tenant.slug).next_after(row["now"])


def _print_verdict(verdict: str, name: str, tenant: str, done: str) -> None:
    if verdict == "unknown":
        raise _unknown(name, tenant)
    print_message(f"{name} {done}")


def _unknown(name: str, tenant: str) -> ScheduleRefused:
    return ScheduleRefused(f"{tenant} has no schedule {name[:60]!r}; see `turno schedule list --tenant {tenant}`")


def _line(row: dict[str, Any]) -> tuple[Any, ...]:
    state = "paused" if row["paused_at"] else "tenant paused" if row.get("tenant_paused_at") else row["problem"] or "on"
    when = row["cron"] or f"every {row['every']} s"
    last = row.get("last_status") and f"{text(row['last_at'])} {row['last_status']}"
    return (row["slug"], row["name"], row["type"], row["queue"], when, row["zone"], row["next_at"], last, state)
