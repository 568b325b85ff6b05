"""The branch's access to the tax authority, as `turno tax-authority certificate` kept it: CUIT, certificate and key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tax_authority import Credentials

if TYPE_CHECKING:
    from datetime import datetime

    from psycopg import Connection


@dataclass(frozen=True, slots=True)
class Access:
    """The branch's CUIT, certificate and key, and whether the certificate has expired by the database's clock."""

    credentials: Credentials
    expires_at: datetime
    expired: bool


def read_access(connection: Connection[Any]) -> Access | None:
    """Return the branch's access, None if it was given none."""
    row = connection.execute(
        "SELECT cuit, certificate, key, expires_at, expires_at <= clock_timestamp() FROM private_tax_authority_access"
    ).fetchone()
    if row is None:
        return None
    cuit, certificate, key, expires_at, expired = row
    return Access(Credentials(cuit, certificate.encode(), key.encode()), expires_at, expired)


def keep_access(connection: Connection[Any], credentials: Credentials, expires_at: datetime) -> None:
    """Take these from now on, and forget the tickets that the former ones got."""
    connection.execute(
        """
        INSERT INTO private_tax_authority_access (cuit, certificate, key, expires_at) VALUES (%s, %s, %s, %s)
        ON CONFLICT (only_row) DO UPDATE
        SET cuit = excluded.cuit, certificate = excluded.certificate, key = excluded.key,
            expires_at = excluded.expires_at
        """,
        (credentials.cuit, credentials.certificate.decode(), credentials.key.decode(), expires_at),
    )
    connection.execute("DELETE FROM private_tax_authority_tickets")
