"""The command `turno token`, and tokens signed with a shared secret."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import jwt

from turno.commands.output import print_message
from turno.environment import read_settings
from turno.errors import TurnoError
from turno.settings import Settings


class CannotSign(TurnoError):
    """Tokens are checked with a public key here, so only their issuer can make them."""


def development_token(
    settings: Settings,
    *,
    user: str,
    tenants: Sequence[str],
    role: str | None = None,
    companies: Sequence[str] | None = None,
    email: str | None = None,
    minutes: int = 60,
) -> str:
    """Return a token that this installation's web accepts; raises CannotSign where it has no shared secret.

    A `role` holds for the tenants of these `companies`, or of all.
    """
    settings.require("jwt_key")
    if settings.jwt_key.lstrip().startswith("-----BEGIN"):
        raise CannotSign(f"TURNO_JWT_KEY is a public key: {CannotSign.__doc__}")
    now = datetime.now(UTC)
    claims = {
        "sub": user,
        "tenants": list(tenants),
        "roles": [role] if role else [],
        "iat": now,
        "exp": now + timedelta(minutes=minutes),
        "iss": settings.jwt_issuer,
        "aud": settings.jwt_audience,
    }
    claims |= {} if companies is None else {"companies": list(companies)}
    claims |= {} if email is None else {"email": email}
    return jwt.encode(claims, settings.jwt_key, algorithm="HS256")


ROLES = ("reader", "operator", "admin")


@click.command(epilog="Example: turno token --user ana --tenant suc0001 --minutes 5")
@click.option("--user", required=True, help="User of the token.")
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
        raise click.UsageError("--company limits the tenants of a role: add --role")
    settings = read_settings()
    print_message(
        development_token(settings, user=user, tenants=tenants, role=role, companies=companies or None, **more)
    )
