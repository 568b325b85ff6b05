"""Find out who asks: by Turno's own tokens, or by the login of the application that it is mounted in."""

import hmac
from typing import NamedTuple

from flask import Request

from turno.web.auth import session_cookie
from turno.web.auth.csrf import SAFE, require_same_origin
from turno.web.auth.principal import Principal
from turno.web.auth.tokens import TokenCheck
from turno.web.http.problems import Kind, Problem
from turno.web.services import services


class Visitor(NamedTuple):
    """Who looks at the pages, with the CSRF token of their forms."""

    principal: Principal
    form_token: str


def principal_of(request: Request) -> Principal:
    """Return who asks the API.

    Raises Problem 401, 429 after many wrong tokens, or 403 for a change that another site has the browser ask for.
    """
    authorization, cookie = request.headers.get("Authorization"), session_cookie.token_in(request)
    if services().principal is not None:
        # Next to a cookie, a bearer header proves nothing: the application may have authenticated by the cookie.
        bearer = (authorization or "").lower().startswith("bearer ") and not request.cookies
        if request.method not in SAFE and not bearer:
            require_same_origin(request)
        return _signed_in(request)
    if authorization is not None or cookie is None:
        return tokens().principal(authorization, request.remote_addr)
    if request.method not in SAFE:
        require_same_origin(request)
    return tokens().read(cookie, request.remote_addr)


def visitor_of(request: Request) -> Visitor:
    """Return who looks at the pages; raises Problem 401 if nobody is signed in."""
    if services().principal is not None:
        principal = _signed_in(request)
        # Of the application's session nothing is known; nobody else's page is told this, whichever session it is.
        key = services().settings.master_key.encode()
        return Visitor(principal, hmac.digest(key, f"turno form {principal.user}".encode(), "sha256").hex())
    token = session_cookie.token_in(request)
    if token is None:
        raise _nobody()
    return Visitor(tokens().read(token, request.remote_addr), session_cookie.form_token(token))


def tokens() -> TokenCheck:
    """Return what checks tokens, where no application says who asks."""
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
