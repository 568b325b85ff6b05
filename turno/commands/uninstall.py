"""The command `turno uninstall`."""

from __future__ import annotations

import click

from turno.environment import read_settings
from turno.tenancy.provisioning.uninstall import StillInUse, count_open_jobs, obstacles, plan_removal, uninstall
from turno.tenancy.schema_migrations.fan_out import opened
from turno.wiring.logins import logins_of
from turno.wiring.provisioner import provisioner


@click.command("uninstall")
@click.option(
    "--plan",
    is_flag=True,
    help="Print each object, right and role that goes, and the schemas that stay; change nothing.",
)
@click.option("--drop-tenants", is_flag=True, help="Drop tenants' schemas that hold data.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def command(*, plan: bool, drop_tenants: bool, yes: bool) -> None:
    """Remove Turno from the database: its schemas, roles and rights; adopted schemas stay as they were.

    PUBLIC gets back its rights. Refused while workers are alive. Repeat the command after an interruption.
    """
    settings = read_settings()
    logins = logins_of(settings)
    with opened(provisioner(settings)) as admin:
        if plan:
            for line in [*obstacles(admin, logins, drop_tenants=drop_tenants), *plan_removal(admin, logins)]:
                click.echo(line)
            return
        for obstacle in obstacles(admin, logins, drop_tenants=drop_tenants):
            raise StillInUse(obstacle)
        if not yes:
            jobs = count_open_jobs(admin)
            click.confirm(
                f"Remove Turno and its {jobs} open jobs from this database? --plan lists each object", abort=True
            )
        uninstall(admin, logins, drop_tenants=drop_tenants)
    click.echo("Turno is no longer in this database")
