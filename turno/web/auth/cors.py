"""CORS: let the pages of other sites use the API, with tokens of their own and never with our cookie."""

from flask import Blueprint, Response, request

from turno.web.services import services

HEADERS = "Authorization, Content-Type, Idempotency-Key, If-None-Match, X-Correlation-Id, X-Schema, traceparent"
EXPOSED = "ETag, Idempotency-Replayed, Location, Retry-After, X-Correlation-Id"
METHODS = "GET, POST, PATCH"
PREFLIGHT_SECONDS = "600"
# Anybody may load the client library: it is the same for all and knows nothing.
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
            "Access-Control-Allow-Methods": METHODS,
            "Access-Control-Allow-Headers": HEADERS,
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
