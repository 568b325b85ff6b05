"""Make tokens where the key is a shared secret: in development and in the demo."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import jwt

from turno.errors import TurnoError

if TYPE_CHECKING:
    from collections.abc import Sequence

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
