"""Authenticate a request: by a token, by the session cookie of the pages, or by the login of the application."""

import hashlib
import hmac
import re
from typing import NamedTuple
from urllib.parse import urlsplit

from flask import Request, Response

from turno.web.auth.tokens import Principal, TokenCheck
from turno.web.http.responses import Kind, Problem
from turno.web.services import at, over_https, services

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def require_same_origin(request: Request) -> None:
    """Raise Problem 403 unless a page of this very origin sends the request; an unknown sender is refused."""
    if not from_own_page(request):
        raise Problem(
            Kind.FOREIGN_SITE,
            "With the pages' cookie only the pages themselves may change anything; other programs send a token.",
        )


def from_own_page(request: Request) -> bool | None:
    """Say whether a page of this very origin sends the request, or one of another site; None if that is not known.

    A browser states it in Sec-Fetch-Site, which no page can forge; an older browser, or any over plain HTTP, only in
    Origin, and for a page's own GET in neither.
    """
    if site := request.headers.get("Sec-Fetch-Site"):
        return None if site == "none" else site == "same-origin"
    origin = request.headers.get("Origin")
    return None if origin is None else urlsplit(origin).netloc == request.host


# Browsers drop a cookie that is larger than 4096 bytes with its name and attributes.
MAX_COOKIE_BYTES = 3800
_PLAIN, _SECURE = "turno", "__Host-turno"
_NO_WORD = re.compile(r"\W+", re.ASCII)


def token_in(request: Request) -> str | None:
    """Return the token that this request's cookie carries, unchecked; None without a session."""
    return request.cookies.get(_name(request)) or None


def begin_session(request: Request, response: Response, token: str, principal: Principal, *, now: float) -> None:
    """Start a session that lasts as long as its token; `now` is in seconds since 1970.

    The response replaces any cookie of the browser, so a planted cookie does not survive.
    """
    response.set_cookie(
        _name(request),
        token,
        max_age=max(1, int(principal.expires_at - now)),
        path="/",
        httponly=True,
        # Not Strict: a link in a mail leads to the page and not to the sign-in. Changes have a separate check of their
        # origin.
        samesite="Lax",
        secure=over_https(request),
    )


def end_session(request: Request, response: Response) -> None:
    """Delete the cookie; the token itself stays valid until it expires or is revoked."""
    response.delete_cookie(_name(request), path="/", httponly=True, samesite="Lax", secure=over_https(request))


def form_token(token: str) -> str:
    """Return the CSRF token of a session's forms, derived from the session's token."""
    return hmac.new(token.encode(), b"turno form", hashlib.sha256).hexdigest()


def _name(request: Request) -> str:
    # A browser accepts __Host- from this very host alone, so a neighbouring subdomain cannot plant a session.
    name = _SECURE if over_https(request) else _PLAIN
    # Its path must then be /, so the name contains the prefix: it separates several mounted Turnos of a site.
    return name + _NO_WORD.sub("-", at(""))


class Visitor(NamedTuple):
    """The signed-in user of the pages, with the CSRF token of their forms."""

    principal: Principal
    form_token: str


def principal_of(request: Request) -> Principal:
    """Return the user of an API request.

    Raises Problem 401, 429 after many wrong tokens, or 403 for a change that another site has the browser ask for.
    """
    authorization = request.headers.get("Authorization")
    if services().principal is not None:
        # Next to a cookie, a bearer header proves nothing: the application may have authenticated by the cookie.
        bearer = (authorization or "").lower().startswith("bearer ") and not request.cookies
        if request.method not in SAFE and not bearer:
            require_same_origin(request)
        return _signed_in(request)
    if authorization is not None or (cookie := token_in(request)) is None:
        return tokens().principal(authorization, request.remote_addr)
    if request.method not in SAFE:
        require_same_origin(request)
    return tokens().read(cookie, request.remote_addr)


def visitor_of(request: Request) -> Visitor:
    """Return the user of the pages; raises Problem 401 without a session."""
    if services().principal is not None:
        principal = _signed_in(request)
        # The application's session is unknown here; the token is a digest of its user, and no other user's page
        # contains it.
        key = services().settings.master_key.encode()
        return Visitor(principal, hmac.digest(key, f"turno form {principal.user}".encode(), "sha256").hex())
    token = token_in(request)
    if token is None:
        raise _nobody()
    return Visitor(tokens().read(token, request.remote_addr), form_token(token))


def tokens() -> TokenCheck:
    """Return the check of tokens, where no application supplies a `principal`."""
    found = services().tokens
    assert found is not None  # noqa: S101 - see `install`
    return found


def _signed_in(request: Request) -> Principal:
    ask = services().principal
    principal = ask(request) if ask else None
    if principal is None:
        raise _nobody()
    return principal


def _nobody() -> Problem:
    return Problem(Kind.NOT_AUTHENTICATED, "Nobody is signed in.", headers={"WWW-Authenticate": 'Cookie realm="turno"'})
