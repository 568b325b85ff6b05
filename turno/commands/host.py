"""The commands `turno host …`."""

from __future__ import annotations

import click

from turno.environment import read_settings
from turno.errors import TurnoError
from turno.tenancy.rights.host_rights import hosts, join_host
from turno.tenancy.schema_migrations.fan_out import opened
from turno.wiring.provisioner import provisioner
from turno.wiring.shared import logins


class UnknownRole(TurnoError):
    """The server has no such role, or it is none that could belong to an application."""


@click.group()
def host() -> None:
    """Let roles of the application that lives in this database do what everybody could before Turno."""


@host.command()
@click.argument("role")
def add(role: str) -> None:
    """Let ROLE connect, and use advisory locks and the schema public, as the roles that were here before may."""
    settings = read_settings()
    with opened(provisioner(settings)) as admin, admin.transaction():
        known = {one.name: one for one in hosts(admin)}
        if role not in known:
            named = ", ".join(known) or "none"
            raise UnknownRole(f"no role of an application is called {role[:60]!r}; those of this server are: {named}")
        join_host(admin, logins(settings), known[role])
    click.echo(f"{role} may do what everybody could before Turno was installed")
