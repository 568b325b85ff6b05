"""The commands `turno company …`."""

import click

from turno.commands.output.results import print_message
from turno.environment import read_settings
from turno.tenancy.provisioning.access import reset_report_login
from turno.tenancy.provisioning.provision import add_company
from turno.tenancy.schema_migrations.fan_out import opened
from turno.wiring.logins import logins_of
from turno.wiring.provisioner import provisioner


@click.group()
def company() -> None:
    """Add companies, which group tenants, and mend the access of their reports."""


@company.command("add", epilog="Example: turno company add acme --name Acme")
@click.argument("slug")
@click.option("--name", help="The company's full name; by default its slug.")
def add(slug: str, name: str | None) -> None:
    """Add the company SLUG, unless it exists."""
    settings = read_settings()
    with opened(provisioner(settings)) as admin:
        added = add_company(admin, logins_of(settings), slug, name or slug)
    print_message(f"company {added.slug}: {added.name}")


@company.command("reset-login", epilog="Example: turno company reset-login acme")
@click.argument("slug")
def reset(slug: str) -> None:
    """Set a new password for the reports' login of the company SLUG, for example after a manual change."""
    settings = read_settings()
    with opened(provisioner(settings)) as admin:
        epoch = reset_report_login(admin, logins_of(settings), slug)
    print_message(f"company {slug}: its reports log in with the password of epoch {epoch} from now on")
