"""Checks of each request, headers of each response, CORS, and the refusal of unknown addresses."""

import logging
import os
from typing import NoReturn
from urllib.parse import urlsplit

from flask import Blueprint, Response, current_app, g, request
from flask.sansio.blueprints import BlueprintSetupState
from werkzeug.routing import PathConverter
from werkzeug.sansio.utils import host_is_trusted

from turno.web.errors import problem_document
from turno.web.http.responses import Kind, Problem
from turno.web.services import at, over_https, services

log = logging.getLogger(__name__)

ANY_NAME = "health"  # tag of the routes for probes and monitoring systems, which address a process and have no session
# A page that needs more sets its own policy first.
DEFAULTS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
ONE_YEAR = "max-age=31536000"


def install_security(turno: Blueprint) -> None:
    """Check every request of the blueprint, and add the headers to every answer that does not set them itself."""
    turno.before_request(_refuse_after_a_fork)
    turno.before_request(_limit_the_body)
    turno.before_request(_refuse_other_hosts)
    turno.after_request(_complete)


def _refuse_after_a_fork() -> Response | None:
    """Say why nothing would work: the threads that keep connections open stayed in the process that made Turno."""
    if services().process == os.getpid():
        return None
    told = "Turno was made before this process was forked: make it in each web process, so gunicorn without --preload."
    log.error(told)
    return problem_document(Problem(Kind.UNAVAILABLE, told))


def _limit_the_body() -> None:
    request.max_content_length = services().settings.limits.body_bytes


def _refuse_other_hosts() -> Response | None:
    """Refuse requests for hosts other than that of TURNO_PUBLIC_URL, except of probes and monitoring systems.

    Otherwise a foreign host name that resolves to this server would count as our own origin.
    """
    public_url = services().settings.public_url
    host = urlsplit(public_url).hostname
    tag = getattr(current_app.blueprints.get(request.blueprint or ""), "tag", None)
    if host is None or tag == ANY_NAME or host_is_trusted(request.host, [host]):
        return None
    told = f"This service answers at {public_url} alone; a proxy in front of it must pass Host on."
    return problem_document(Problem(Kind.INVALID_REQUEST, told))


def _complete(response: Response) -> Response:
    for name, value in DEFAULTS.items():
        response.headers.setdefault(name, value)
    if over_https(request):
        response.headers.setdefault("Strict-Transport-Security", ONE_YEAR)
    if "turno_correlation_id" in g:
        response.headers["X-Correlation-Id"] = g.turno_correlation_id
    return response


CORS_HEADERS = "Authorization, Content-Type, Idempotency-Key, If-None-Match, X-Correlation-Id, X-Schema, traceparent"
EXPOSED = "ETag, Idempotency-Replayed, Location, Retry-After, X-Correlation-Id"
CORS_METHODS = "GET, POST, PATCH"
PREFLIGHT_SECONDS = "600"
# The client library is public: it is the same for all users and contains no data.
CLIENT = "turno-client.js"


def install_cors(turno: Blueprint) -> None:
    """Answer preflight requests, and add CORS headers to answers, for the origins in TURNO_ALLOWED_ORIGINS."""
    turno.before_request(_preflight)
    turno.after_request(_allow)


def _preflight() -> Response | None:
    asks = request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers
    if not (asks and _allowed()):
        return None
    return Response(
        status=204,
        headers={
            "Access-Control-Allow-Methods": CORS_METHODS,
            "Access-Control-Allow-Headers": CORS_HEADERS,
            "Access-Control-Max-Age": PREFLIGHT_SECONDS,
        },
    )


def _allow(response: Response) -> Response:
    if request.endpoint == "turno.static" and (request.view_args or {}).get("filename") == CLIENT:
        response.headers["Access-Control-Allow-Origin"] = "*"
        response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    # Without Access-Control-Allow-Credentials a browser leaves the cookie out: other sites bring a token.
    if _of_the_api() and services().settings.allowed_origins:
        response.vary.add("Origin")
        if _allowed():
            response.headers["Access-Control-Allow-Origin"] = request.headers["Origin"]
            response.headers["Access-Control-Expose-Headers"] = EXPOSED
    return response


def _allowed() -> bool:
    return _of_the_api() and request.headers.get("Origin") in services().settings.allowed_origins


def _of_the_api() -> bool:
    return request.path.startswith(f"{services().prefix}/api/")


UNKNOWN = "turno.unknown"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


class AnyPath(PathConverter):
    """The rest of a path, also with a leading slash."""

    regex = ".*?"
    part_isolating = False


def install_unknown_address(turno: Blueprint) -> None:
    """Have the blueprint answer all unknown addresses below its prefix; Flask prefers any other route."""
    turno.record(_install)


def _install(state: BlueprintSetupState) -> None:
    app, prefix = state.app, state.url_prefix or ""
    app.url_map.converters["turno_any"] = AnyPath
    # Not by Flask's `route`, which needs a list of methods: a client may send any.
    app.url_map.add(app.url_rule_class(f"{prefix}/<turno_any:path>", endpoint=UNKNOWN))
    app.view_functions[UNKNOWN] = _unknown


def _unknown(path: str) -> NoReturn:  # noqa: ARG001 - the routing's own argument
    adapter = current_app.create_url_adapter(request)
    allowed = [method for method in METHODS if adapter and adapter.match(method=method)[0] != UNKNOWN]
    if allowed:
        told = "Use one of the methods that the Allow header names."
        raise Problem(Kind.METHOD, told, headers={"Allow": ", ".join(allowed)})
    raise Problem(Kind.NOT_FOUND, f"There is nothing at this address; {at('/openapi.json')} lists the addresses.")
