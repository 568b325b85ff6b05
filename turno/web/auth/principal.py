"""Find out who asks: by a bearer token, or by the same token in the pages' cookie."""

from typing import NamedTuple

from flask import Request

from turno.web.auth import session_cookie
from turno.web.auth.csrf import SAFE, require_same_origin
from turno.web.auth.tokens import Principal
from turno.web.http.problems import Kind, Problem
from turno.web.services import services


class Visitor(NamedTuple):
    """Who looks at the pages, with the CSRF token of their forms."""

    principal: Principal
    form_token: str


def principal_of(request: Request) -> Principal:
    """Return who asks the API.

    Raises Problem 401, 429 after many wrong tokens, or 403 for a change that another site asks for with our cookie.
    """
    authorization = request.headers.get("Authorization")
    cookie = session_cookie.token_in(request)
    if authorization is not None or cookie is None:
        return services().tokens.principal(authorization, request.remote_addr)
    # A cookie needs a CSRF check, because a browser sends it whichever site asks; a bearer header does not.
    if request.method not in SAFE:
        require_same_origin(request)
    return services().tokens.read(cookie, request.remote_addr)


def visitor_of(request: Request) -> Visitor:
    """Return who looks at the pages; raises Problem 401 if nobody is signed in."""
    token = session_cookie.token_in(request)
    if token is None:
        raise Problem(Kind.NOT_AUTHENTICATED, "Nobody is signed in.")
    return Visitor(services().tokens.read(token, request.remote_addr), session_cookie.form_token(token))
