"""The commands `turno company …`."""

from __future__ import annotations

import click

from cli.environment import read_settings
from cli.provisioner import provisioner
from cli.wiring import logins
from tenants.fan_out import opened
from tenants.provision import add_company


@click.group()
def company() -> None:
    """Add companies, which group tenants."""


@company.command("add")
@click.argument("slug")
@click.option("--name", help="The company's full name; by default its slug.")
def add(slug: str, name: str | None) -> None:
    """Add the company SLUG, or leave it as it is."""
    settings = read_settings()
    with opened(provisioner(settings)) as admin:
        added = add_company(admin, logins(settings), slug, name or slug)
    click.echo(f"company {added.slug}: {added.name}")
