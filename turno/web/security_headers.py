"""Headers that every answer carries, whatever it is."""

from flask import Flask, Response, g, request

from turno.web.public_url import over_https

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


def install_security_headers(app: Flask) -> None:
    """Add the headers to every answer that does not set them itself."""
    app.after_request(_complete)


def _complete(response: Response) -> Response:
    for name, value in DEFAULTS.items():
        response.headers.setdefault(name, value)
    if over_https(request):
        response.headers.setdefault("Strict-Transport-Security", ONE_YEAR)
    if "correlation_id" in g:
        response.headers["X-Correlation-Id"] = g.correlation_id
    return response
