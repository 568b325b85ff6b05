"""The command `turno token`."""

from __future__ import annotations

import click

from turno.commands.development_token import development_token
from turno.environment import read_settings


@click.command()
@click.option("--user", required=True, help="Whom the token speaks for.")
@click.option("--tenant", "tenants", multiple=True, help="A tenant it may choose; may be repeated.")
@click.option("--operator", is_flag=True, help="Let it use the operator's routes and every tenant.")
@click.option(
    "--minutes", type=click.IntRange(1, 7 * 24 * 60), default=60, show_default=True, help="How long it lasts."
)
def token(*, user: str, tenants: tuple[str, ...], operator: bool, minutes: int) -> None:
    """Print a token for development, signed with JWT_KEY; in production your identity provider makes them."""
    if not tenants and not operator:
        raise click.UsageError("name at least one --tenant, or --operator: the token could be used for nothing")
    settings = read_settings()
    click.echo(development_token(settings, user=user, tenants=tenants, operator=operator, minutes=minutes))
