"""The commands `turno schedule …` and `turno template …`: recurring jobs of a tenant, and of all tenants."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import click

from turno.capabilities.schedules import stored
from turno.capabilities.schedules.listed import list_schedules
from turno.capabilities.schedules.recurrence import known_zone, rule_of
from turno.capabilities.schedules.recurring_job import Row, stored_rule
from turno.capabilities.schedules.shared_commands import NotSaved, given_options, recurring_job, register, rule_options
from turno.capabilities.schedules.stored import Schedules
from turno.capabilities.schedules.templates import Templates, list_templates, set_zone
from turno.commands.options import by_option
from turno.commands.output import print_message, show, text
from turno.commands.tenant_session import session_of
from turno.environment import read_settings
from turno.jobs.label import counted
from turno.process_name import person
from turno.tenancy.identity.directory import UnknownTenant
from turno.wiring.logins import operator_session

HEADERS = ("tenant", "name", "type", "queue", "when", "zone", "next", "last", "state")
TEMPLATE_HEADERS = ("name", "type", "queue", "when", "zone", "tenants", "paused", "problems", "state")
COPY_HEADERS = ("tenant", "zone", "next", "missed", "state")
MOST, MOST_COPIES = 1000, 10_000


@click.group()
def schedule() -> None:
    """Make jobs again and again: add, list, change, pause, resume, remove and preview schedules."""


@click.group()
def template() -> None:
    """Create jobs at times in every tenant: add, list, set, pause, resume and remove templates."""


@contextmanager
def _schedules(tenant: str) -> Iterator[Schedules]:
    with session_of(tenant) as session:
        yield Schedules(session.connection, session.tenant)


@contextmanager
def _templates(by: str = "") -> Iterator[Templates]:
    with operator_session(read_settings()) as operator:
        yield Templates(operator, by)


def _next(row: Row, tenant: str) -> datetime | None:
    return None if row["paused_at"] else stored_rule(row, tenant).next_after(row["now"])


def _described_schedule(row: Row, tenant: str) -> str:
    return f": {'paused' if row['paused_at'] else f'next at {text(_next(row, tenant))}'}"


def _described_template(row: Row, _tenant: str) -> str:
    return f" in {counted(row['tenants'], 'tenant')}"


scope_tenant = click.option("--tenant", "scope", required=True, help="Tenant of the schedule.")
scope_by = click.option("--by", "scope", default=person, help="Name in the audit; by default the user of this shell.")
register(schedule, "schedule", scope_tenant, _schedules, _described_schedule, example="--tenant suc0001 ")
register(template, "template", scope_by, _templates, _described_template, example="")


@schedule.command("list", epilog="Example: turno schedule list --all --json")
@click.option("--tenant", help="Tenant of the schedules.")
@click.option("--all", "everybody", is_flag=True, help="Schedules of every tenant.")
def list_all(*, tenant: str | None, everybody: bool) -> None:
    """List the schedules of a tenant, or of all."""
    if everybody == (tenant is not None):
        raise click.UsageError("say either --tenant SLUG or --all")
    if tenant is None:
        with operator_session(read_settings()) as operator:
            rows = list_schedules(operator)
    else:
        with session_of(tenant) as session:
            rows = session.read(lambda reader: stored.search(reader, None, limit=MOST))
        rows = [row | {"slug": tenant, "next_at": _next(row, tenant)} for row in rows]
    lines = []
    for row in rows:
        last = row.get("last_status") and f"{text(row['last_at'])} {row['last_status']}"
        lines.append((row["slug"], *_rule(row), row["next_at"], last, _state(row)))
    show(rows, HEADERS, lines)


@schedule.command("next", epilog="Example: turno schedule next --every 6h --count 3")
@click.option("--tenant", help="Tenant of the schedule; without it the times are previewed.")
@rule_options
@click.option("--count", type=click.IntRange(1, 100), default=5, show_default=True, help="Number of moments.")
@click.argument("name", required=False)
def preview(*, tenant: str | None, name: str | None, count: int, **options: Any) -> None:
    """Show the next moments, in UTC and in its zone: of the schedule NAME, or of --cron or --every."""
    given = given_options(options)
    if tenant is not None and name is not None and not given:
        with _schedules(tenant) as schedules:
            row = recurring_job(schedules, name)
        zone, moments = row["zone"], stored_rule(row, tenant).after(row["now"])
    elif given and tenant is None:
        zone = given.get("zone", "UTC")
        usual = {"cron": None, "every": None, "zone": zone, "spread": 0, "missed": "once"}
        moments = rule_of(**(usual | given), name=name or "", tenant="").after(datetime.now(UTC))
    else:
        raise click.UsageError("say either --tenant SLUG NAME, or --cron or --every")
    rows = [(moment, moment.astimezone(ZoneInfo(zone)).isoformat()) for moment in islice(moments, count)]
    show([{"utc": utc, "local": local} for utc, local in rows], ("utc", zone), rows)


@template.command("list", epilog="Example: turno template list --json")
def list_all_templates() -> None:
    """List the templates with the numbers of their tenants."""
    with _templates() as templates:
        rows = list_templates(templates.operator)
    numbers = ("tenants", "paused", "problems")
    show(rows, TEMPLATE_HEADERS, [(*_rule(row), *(row[number] for number in numbers), _state(row)) for row in rows])


@template.command("show", epilog="Example: turno template show nightly")
@click.argument("name")
def show_copies(*, name: str) -> None:
    """Show the copies of the template NAME by tenant."""
    with _templates() as templates:
        row = recurring_job(templates, name)
        copies = list_schedules(templates.operator, name, limit=MOST_COPIES)
    paused = "template paused" if row["paused_at"] else None
    lines = [
        (copy["tenant"], copy["zone"], copy["next_at"], copy["missed_runs"], paused or _state(copy)) for copy in copies
    ]
    show(row | {"copies": copies}, COPY_HEADERS, lines)


@template.command(epilog="Example: turno template zone --tenant suc0001 America/Argentina/Cordoba")
@click.option("--tenant", required=True, help="The tenant.")
@by_option
@click.argument("zone", required=False)
def zone(*, tenant: str, zone: str | None, by: str) -> None:
    """Set the time zone of a tenant for its copies to ZONE; without ZONE each template's zone applies."""
    if zone is not None and not known_zone(zone):
        raise NotSaved(f"{zone[:60]!r} is no time zone known here, such as America/Argentina/Buenos_Aires")
    with _templates() as templates:
        if not set_zone(templates.operator, tenant, zone, by=by):
            raise UnknownTenant(tenant)
    print_message(f"{tenant} has the time zone {zone or 'of each template'}")


def _rule(row: Row) -> tuple[Any, ...]:
    return (row["name"], row["type"], row["queue"], row["cron"] or f"every {row['every']} s", row["zone"])


def _state(row: Row) -> str:
    if row["paused_at"]:
        return f"paused by {row['paused_by']}" if "paused_by" in row else "paused"
    return "tenant paused" if row.get("tenant_paused_at") else str(row.get("problem") or "on")
