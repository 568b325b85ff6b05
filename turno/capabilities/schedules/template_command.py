"""The commands `turno template …`: recurring jobs of all tenants."""

from contextlib import AbstractContextManager
from getpass import getuser
from typing import Any

import click
import psycopg

from turno.capabilities.schedules import template_rows
from turno.capabilities.schedules.options import NotSaved, changed_options, given_options, job_options, recurring_job
from turno.capabilities.schedules.recurrence import known_zone
from turno.commands.options import by_option
from turno.commands.output import print_message, show
from turno.environment import read_settings
from turno.errors import TurnoError
from turno.jobs.label import counted
from turno.tenancy.identity.directory import UnknownTenant
from turno.wiring.logins import operator_session

ANY_TENANT = ""  # the rule is checked without the delay of a tenant
MOST = 10_000
HEADERS = ("name", "type", "queue", "when", "zone", "tenants", "paused", "problems", "state")
COPY_HEADERS = ("tenant", "zone", "next", "missed", "state")


class UnknownTemplate(TurnoError):
    """No template has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no template {name[:60]!r}; see `turno template list`")


@click.group()
def template() -> None:
    """Create jobs at times in every tenant: add, list, set, pause, resume and remove templates."""


@template.command(epilog="Example: turno template add nightly --type send_letters --cron '0 3 * * *'")
@click.option("--type", "job_type", required=True, help="The type of its jobs.")
@job_options
@click.option("--user", default=getuser, help="The user of its jobs; by default the user of this shell.")
@by_option
@click.argument("name")
def add(*, name: str, job_type: str, user: str, by: str, **options: Any) -> None:
    """Add the template NAME to every active tenant, present and future."""
    wanted = recurring_job(name, job_type, user, {"payload": {}} | given_options(options), ANY_TENANT)
    with _operator() as operator:
        if template_rows.save(operator, wanted, by=by, replace=False) == "exists":
            raise NotSaved(f"there is a template {name}; change it by `turno template set`")
        (row,) = template_rows.list_templates(operator, name)
    print_message(f"{name} is added to {counted(row['tenants'], 'tenant')}")


@template.command("set", epilog="Example: turno template set nightly --every 6h")
@click.option("--type", "job_type", help="The type of its jobs.")
@job_options
@by_option
@click.argument("name")
def change(*, name: str, job_type: str | None, by: str, **options: Any) -> None:
    """Change the template NAME; each tenant's copy fires from its next moment on."""
    given = given_options(options)
    with _operator() as operator:
        row = _found(operator, name)
        changed = changed_options(row, given)
        wanted = recurring_job(name, job_type or row["type"], row["user_id"], changed, ANY_TENANT)
        template_rows.save(operator, wanted, by=by, create=False)
    print_message(f"{name} is changed")


@template.command("list", epilog="Example: turno template list --json")
def list_all() -> None:
    """List the templates with the numbers of their tenants."""
    with _operator() as operator:
        rows = template_rows.list_templates(operator)
    lines = [
        (row["name"], row["type"], row["queue"], row["cron"] or f"every {row['every']} s", row["zone"], row["tenants"],
         row["paused"], row["problems"], "paused" if row["paused_at"] else "on")
        for row in rows
    ]  # fmt: skip
    show(rows, HEADERS, lines)


@template.command("show", epilog="Example: turno template show nightly")
@click.argument("name")
def show_copies(*, name: str) -> None:
    """Show the copies of the template NAME by tenant."""
    with _operator() as operator:
        row = _found(operator, name)
        copies = template_rows.list_copies(operator, name, limit=MOST)
    lines = [(one["tenant"], one["zone"], one["next_at"], one["missed_runs"], _state(row, one)) for one in copies]
    show(row | {"copies": copies}, COPY_HEADERS, lines)


@template.command(epilog="Example: turno template pause nightly")
@by_option
@click.argument("name")
def pause(*, name: str, by: str) -> None:
    """Pause the template NAME in all tenants."""
    _switch(name, by, pause=True)
    print_message(f"{name} is paused in all tenants")


@template.command(epilog="Example: turno template resume nightly")
@by_option
@click.argument("name")
def resume(*, name: str, by: str) -> None:
    """Resume the template NAME; copies that a tenant paused stay paused."""
    _switch(name, by, pause=False)
    print_message(f"{name} fires again")


@template.command(epilog="Example: turno template remove nightly")
@by_option
@click.argument("name")
def remove(*, name: str, by: str) -> None:
    """Remove the template NAME; the jobs that it made stay."""
    with _operator() as operator:
        if not template_rows.remove(operator, name, by=by):
            raise UnknownTemplate(name)
    print_message(f"{name} is removed")


@template.command(epilog="Example: turno template zone --tenant suc0001 America/Argentina/Cordoba")
@click.option("--tenant", required=True, help="The tenant.")
@by_option
@click.argument("zone", required=False)
def zone(*, tenant: str, zone: str | None, by: str) -> None:
    """Set the time zone of a tenant for its copies to ZONE; without ZONE each template's zone applies."""
    if zone is not None and not known_zone(zone):
        raise NotSaved(f"{zone[:60]!r} is no time zone known here, such as America/Argentina/Buenos_Aires")
    with _operator() as operator:
        if not template_rows.set_zone(operator, tenant, zone, by=by):
            raise UnknownTenant(tenant)
    print_message(f"{tenant} has the time zone {zone or 'of each template'}")


def _operator() -> AbstractContextManager[psycopg.Connection[Any]]:
    return operator_session(read_settings())


def _found(operator: psycopg.Connection[Any], name: str) -> dict[str, Any]:
    rows = template_rows.list_templates(operator, name)
    if not rows:
        raise UnknownTemplate(name)
    return rows[0]


def _switch(name: str, by: str, *, pause: bool) -> None:
    with _operator() as operator:
        if not template_rows.switch(operator, name, pause=pause, by=by):
            raise UnknownTemplate(name)


def _state(row: dict[str, Any], copy: dict[str, Any]) -> str:
    if row["paused_at"]:
        return "template paused"
    if copy["paused_at"]:
        return f"paused by {copy['paused_by']}"
    return "tenant paused" if copy["tenant_paused_at"] else copy["problem"] or "on"
