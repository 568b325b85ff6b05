"""The commands `turno tax-authority …`: a branch's access to the tax authority."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from tax_authority.authorising.access import keep_access, read_access
from tax_authority.authorising.certificates import UnfitAccess, checked_access
from turno.administration import Administration

SOON_DAYS = 30
pem = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.group("tax-authority")
def tax_authority() -> None:
    """Store and show the certificates of branches for the tax authority."""


@tax_authority.command()
@click.option("--tenant", required=True, help="Tenant of the branch.")
@click.option("--cuit", required=True, help="The branch's taxpayer number, such as 30-71234567-1.")
@click.option("--certificate", required=True, type=pem, help="The file that the tax authority returned, in PEM.")
@click.option("--key", required=True, type=pem, help="The unencrypted private key of the certificate, in PEM.")
def certificate(*, tenant: str, cuit: str, certificate: Path, key: Path) -> None:
    """Store a branch's access after checking that its CUIT, certificate and key belong together."""
    try:
        credentials, expires_at = checked_access(cuit, certificate.read_bytes(), key.read_bytes())
    except UnfitAccess as error:
        raise click.ClickException(str(error)) from error
    with Administration().as_owner(tenant) as owner:
        keep_access(owner, credentials, expires_at)
    click.echo(f"{tenant} uses CUIT {credentials.cuit} until {_until(expires_at)}")


@tax_authority.command()
@click.option("--tenant", required=True, help="Tenant of the branch.")
def show(*, tenant: str) -> None:
    """Show the CUIT of a branch and the end of its certificate; exit status 1 without a valid certificate."""
    with Administration().as_owner(tenant) as owner:
        access = read_access(owner)
    if access is None:
        raise click.ClickException(f"{tenant} has no certificate: `turno tax-authority certificate` gives it one")
    if access.expired:
        raise click.ClickException(
            f"the certificate of {tenant} expired on {access.expires_at:%Y-%m-%d}: get a new one"
        )
    click.echo(f"{tenant} uses CUIT {access.credentials.cuit} until {_until(access.expires_at)}")


def _until(expires_at: datetime) -> str:
    days = (expires_at - datetime.now(UTC)).days
    return f"{expires_at:%Y-%m-%d}" + (f", in {days} days: get a new one" if days < SOON_DAYS else "")
