"""The commands `turno webhook …`: the addresses of operators, and the failed deliveries."""

from collections.abc import Callable
from typing import Any

import click

from turno.capabilities.webhooks import stored
from turno.capabilities.webhooks.signature import address_secret, webhook_secret
from turno.capabilities.webhooks.url import url_problem
from turno.commands.failures import printable
from turno.commands.options import by_option, with_options
from turno.commands.output import print_message, print_table, show, wants_json
from turno.environment import read_settings
from turno.errors import TurnoError
from turno.jobs.handler import named_handlers
from turno.tenancy.identity.directory import Directory, UnknownTenant
from turno.wiring.logins import operator_session

MOST = 1000
SHOWN = ("id", "tenant", "job_id", "url", "attempts")  # of a failed delivery


class NotTold(TurnoError):
    """No change was made; the message has the reason."""


@click.group()
def webhooks() -> None:
    """Add webhooks; list and resend failed deliveries."""


@webhooks.command("list", epilog="Example: turno webhook list --json")
@click.option("--tenant", help="Only the failed deliveries of this tenant.")
def list_all(*, tenant: str | None) -> None:
    """List the addresses and the failed deliveries."""
    with operator_session(read_settings()) as operator:
        addresses, failing = stored.list_addresses(operator), stored.failing(operator, tenant=tenant, limit=MOST)
    if wants_json():
        show({"addresses": addresses, "failing": failing})
        return
    lines = [
        (address["id"], address["url"], address["tenant"] or "all", address["type"] or "all", address["failing"])
        for address in addresses
    ]
    print_table(("number", "address", "tenant", "type", "not taken"), lines)
    if failing:
        click.echo()
        lines = [
            (*(delivery[name] for name in SHOWN), delivery["next_at"] or "no more", printable(delivery["error"]))
            for delivery in failing
        ]
        print_table(("id", "tenant", "job", "address", "tries", "next", "error"), lines)


@webhooks.command(epilog="Example: turno webhook add https://hooks.example/turno --type send_letters")
@click.argument("url")
@click.option("--tenant", help="Only the jobs of this tenant.")
@click.option("--type", "job_type", help="Only jobs of this type.")
@by_option
def add(url: str, tenant: str | None, job_type: str | None, by: str) -> None:
    """Add URL for the later ends of jobs; TURNO_WEBHOOK_HOSTS must name its host."""
    settings = read_settings()
    if wrong := url_problem(url, settings.webhook_hosts):
        raise NotTold(f"the address {wrong}")
    if job_type is not None and job_type not in {
        handler.type for handler in named_handlers(settings.handlers).handlers
    }:
        raise NotTold(f"no handler has the type {job_type[:60]!r}")
    with operator_session(settings) as operator:
        made = stored.add_address(operator, url, tenant=tenant, job_type=job_type, by=by)
    if made is None:
        raise UnknownTenant(tenant or "")
    print_message(f"address {made} receives every end; turno webhook secret {made} prints its signing secret")


@webhooks.command(epilog="Example: turno webhook remove 3")
@click.argument("number", type=int)
@by_option
def remove(number: int, by: str) -> None:
    """Remove the address NUMBER and discard its undelivered ends."""
    with operator_session(read_settings()) as operator:
        if not stored.remove_address(operator, number, by=by):
            raise NotTold(f"there is no address {number}")
    print_message(f"address {number} receives no more webhooks")


@webhooks.command(epilog="Example: turno webhook secret 3")
@click.argument("number", type=int, required=False)
@click.option("--tenant", help="The key of this tenant's submissions.")
def secret(number: int | None, tenant: str | None) -> None:
    """Print the key that signs the webhooks to the address NUMBER, or of a tenant's submissions."""
    settings = read_settings()
    if (number is None) == (tenant is None):
        raise click.UsageError("name the NUMBER of an address, or --tenant")
    if tenant is None:
        print_message(address_secret(settings, number or 0))
        return
    with operator_session(settings) as operator:
        Directory(lambda: operator).find(tenant)
    print_message(webhook_secret(settings, tenant))


def settling(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that choose failed deliveries."""
    return with_options(command, (
        click.argument("ids", nargs=-1, type=int),
        click.option("--tenant", help="All failed deliveries of this tenant."),
        click.option("--all", "everything", is_flag=True, help="All failed deliveries."),
        by_option,
    ))  # fmt: skip


@webhooks.command(epilog="Example: turno webhook resend --all")
@settling
def resend(**given: Any) -> None:
    """Resend the failed deliveries with these IDS, or all of a tenant, or all, at once."""
    print_message(f"deliveries sent again: {_settle(**given, again=True):,}")


@webhooks.command(epilog="Example: turno webhook discard --tenant suc0001")
@settling
def discard(**given: Any) -> None:
    """Discard the failed deliveries with these IDS, or all of a tenant, or all."""
    print_message(f"deliveries discarded: {_settle(**given, again=False):,}")


def _settle(ids: tuple[int, ...], tenant: str | None, by: str, *, again: bool, everything: bool) -> int:
    if not (ids or tenant or everything):
        raise click.UsageError("name the ids that `turno webhook list` shows, or --tenant, or --all")
    with operator_session(read_settings()) as operator:
        return stored.settle(operator, again=again, by=by, tenant=tenant, ids=ids or None)
