"""The command `turno token`."""

from __future__ import annotations

from typing import Any

import click

from turno.commands.development_token import development_token
from turno.environment import read_settings

ROLES = ("reader", "operator", "admin")


@click.command()
@click.option("--user", required=True, help="Whom the token speaks for.")
@click.option("--tenant", "tenants", multiple=True, help="A tenant it may choose; may be repeated.")
@click.option("--role", type=click.Choice(ROLES), help="Let it use the operator's routes and all tenants.")
@click.option("--company", "companies", multiple=True, help="With --role, only this company's tenants; repeatable.")
@click.option("--email", help="The address that they may have mails sent to.")
@click.option(
    "--minutes", type=click.IntRange(1, 7 * 24 * 60), default=60, show_default=True, help="How long it lasts."
)
def token(*, user: str, tenants: tuple[str, ...], companies: tuple[str, ...], role: str | None, **more: Any) -> None:
    """Print a token for development, signed with TURNO_JWT_KEY; in production your identity provider makes them."""
    if not tenants and not role:
        raise click.UsageError("name at least one --tenant, or a --role: the token could be used for nothing")
    if companies and not role:
        raise click.UsageError("--company goes with --role: it says for whose tenants the role holds")
    settings = read_settings()
    click.echo(development_token(settings, user=user, tenants=tenants, role=role, companies=companies or None, **more))
