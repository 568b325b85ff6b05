"""The commands `turno host …`."""

from __future__ import annotations

import click

from turno.environment import read_settings
from turno.errors import TurnoError
from turno.store.operator.acts import record
from turno.tenancy.rights.host_rights import hosts, join_host
from turno.tenancy.schema_migrations.fan_out import opened
from turno.wiring.logins import logins_of
from turno.wiring.provisioner import provisioner


class UnknownRole(TurnoError):
    """The server has no such role, or it is Turno's, a superuser's or the server's own."""


@click.group()
def host() -> None:
    """Give the application's own roles what PUBLIC had before Turno was installed."""


@host.command()
@click.argument("role")
def add(role: str) -> None:
    """Let ROLE connect to the database and use advisory locks and the schema public.

    Roles that existed before Turno was installed have these rights already.
    """
    settings = read_settings()
    with opened(provisioner(settings)) as admin, admin.transaction():
        known = {one.name: one for one in hosts(admin)}
        if role not in known:
            named = ", ".join(known) or "none"
            raise UnknownRole(f"there is no role {role[:60]!r} of an application; those of this server are: {named}")
        join_host(admin, logins_of(settings), known[role])
        record(admin, "host add", subject=role)
    click.echo(f"{role} has what PUBLIC had before Turno was installed")
