"""POST /sign-in, /sign-in/demo and /sign-out."""

import logging

from flask import Response, request

from turno.web.auth.login import MAX_COOKIE_BYTES, begin_session, end_session, require_same_origin, tokens
from turno.web.http.responses import Kind, Problem
from turno.web.pages.drawing import go, local, sign_in_page
from turno.web.pages.page_routes import Pages
from turno.web.services import asked_on_this_machine, at, over_https, services

log = logging.getLogger(__name__)

sign_in = Pages("sign_in", __name__)


@sign_in.post("/sign-in")
def with_token() -> Response:
    """Sign in with a token that was pasted."""
    require_same_origin(request)
    return _begin("".join(request.form.get("token", "").split()))


@sign_in.post("/sign-in/demo")
def with_demo() -> Response:
    """Sign in as the demo's user, where there is a demo."""
    require_same_origin(request)
    token = services().settings.demo_token
    # A foreign site with a name that resolves to this server is its own origin and may send any form.
    if not token or not asked_on_this_machine(request):
        raise Problem(Kind.NOT_FOUND, "There is no demo here.")
    return _begin(token)


@sign_in.post("/sign-out")
def sign_out() -> Response:
    """End the session of this browser."""
    # No form token: the button works after the end of the session, and other sites are refused.
    require_same_origin(request)
    response = go(at("/"))
    end_session(request, response)
    return response


def _begin(token: str) -> Response:
    if over_https(request) and not request.is_secure:
        log.warning(
            "sign-in refused: it came over HTTP from %s, which TURNO_TRUSTED_PROXIES may have to name",
            request.remote_addr,
        )
        return sign_in_page(status=403, notice="not over https")
    if len(token) > MAX_COOKIE_BYTES:
        return sign_in_page(status=400, notice="token too long")
    try:
        principal = tokens().read(token, request.remote_addr)
    except Problem as problem:
        return sign_in_page(status=problem.kind.status, notice="token refused")
    response = go(local(request.form.get("next", "")))
    begin_session(request, response, token, principal, now=services().clock().timestamp())
    return response
