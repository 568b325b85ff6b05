"""What every request and answer of Turno's has: the host we answer for, a limit to the body, and headers."""

import logging
import os
from urllib.parse import urlsplit

from flask import Blueprint, Response, current_app, g, request
from werkzeug.sansio.utils import host_is_trusted

from turno.web.addresses import over_https
from turno.web.errors import problem_document
from turno.web.http.problems import Kind, Problem
from turno.web.services import services

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

    A site whose name is made to lead here would otherwise count as our own origin.
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
