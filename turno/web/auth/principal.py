"""Find out who asks: by the Authorization header, or by the pages' cookie."""

from flask import Request

from turno.web.auth import session_cookie
from turno.web.auth.csrf import SAFE, require_same_origin
from turno.web.auth.tokens import Principal
from turno.web.services import services


def principal_of(request: Request) -> Principal:
    """Return who asks.

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
