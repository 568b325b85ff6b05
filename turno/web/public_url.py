"""What PUBLIC_URL decides: which host we answer for, and that browsers reach us over HTTPS."""

from ipaddress import ip_address
from urllib.parse import urlsplit

from flask import Flask, Request, Response, request
from werkzeug.sansio.utils import host_is_trusted

from turno.web.error_responses import problem_answer
from turno.web.http.problems import Kind
from turno.web.services import services

# A probe asks by the address of a process; what it is told depends on nobody.
PROBES = "health"


def install_host_check(app: Flask, public_url: str) -> None:
    """Refuse requests for other hosts than that of PUBLIC_URL, if it is set; probes are answered under any name.

    A site whose name is made to lead here would otherwise count as our own origin.
    """
    host = urlsplit(public_url).hostname

    def refuse_other_hosts() -> Response | None:
        if request.blueprint == PROBES or host_is_trusted(request.host, [str(host)]):
            return None
        return problem_answer(
            Kind.INVALID_REQUEST,
            f"This service answers at {public_url} alone; a proxy in front of it must pass Host on.",
        )

    if host is not None:
        app.before_request(refuse_other_hosts)


def over_https(request: Request) -> bool:
    """Say whether browsers reach us over HTTPS: if PUBLIC_URL says so, whatever a request's headers say."""
    return request.is_secure or services().settings.public_url.startswith("https:")


def asked_on_this_machine(request: Request) -> bool:
    """Say whether the browser asked for a name that always means its own machine; any other may be led here."""
    try:
        host = urlsplit(f"//{request.host}").hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
