"""The pages' session: the user's own token, in a cookie that no script can read."""

import hashlib
import hmac
import re

from flask import Request, Response

from turno.web.addresses import at, over_https
from turno.web.auth.principal import Principal

# Browsers drop a cookie that is larger than 4096 bytes with its name and attributes.
MAX_COOKIE_BYTES = 3800
_PLAIN, _SECURE = "turno", "__Host-turno"
_NO_WORD = re.compile(r"\W+", re.ASCII)


def token_in(request: Request) -> str | None:
    """Return the token that this request's cookie carries, unchecked; None without a session."""
    return request.cookies.get(_name(request)) or None


def begin(request: Request, response: Response, token: str, principal: Principal, *, now: float) -> None:
    """Start a session that lasts as long as its token; `now` is in seconds since 1970.

    Whatever cookie the browser brought is replaced: nothing that somebody planted there lives on.
    """
    response.set_cookie(
        _name(request),
        token,
        max_age=max(1, int(principal.expires_at - now)),
        path="/",
        httponly=True,
        # Not Strict: a link in a mail leads to the page and not to the sign-in. What changes state is checked apart.
        samesite="Lax",
        secure=over_https(request),
    )


def end(request: Request, response: Response) -> None:
    """Delete the cookie; the token itself stays valid until it expires or is revoked."""
    response.delete_cookie(_name(request), path="/", httponly=True, samesite="Lax", secure=over_https(request))


def form_token(token: str) -> str:
    """Return the CSRF token of a session's forms, derived from the session's token."""
    return hmac.new(token.encode(), b"turno form", hashlib.sha256).hexdigest()


def _name(request: Request) -> str:
    # A browser accepts __Host- from this very host alone, so a neighbouring subdomain cannot plant a session.
    name = _SECURE if over_https(request) else _PLAIN
    # Its path must then be /, so the name tells what is mounted below one part of a site from what is below another.
    return name + _NO_WORD.sub("-", at(""))
