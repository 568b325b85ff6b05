"""How browsers reach us: over HTTPS, or on this very machine."""

from ipaddress import ip_address
from urllib.parse import urlsplit

from flask import Request

from turno.web.services import services


def over_https(request: Request) -> bool:
    """Say whether browsers reach us over HTTPS: if TURNO_PUBLIC_URL says so, whatever a request's headers say."""
    return request.is_secure or services().settings.public_url.startswith("https:")


def asked_on_this_machine(request: Request) -> bool:
    """Say whether the browser asked for a name that always means its own machine; any other may be led here."""
    try:
        host = urlsplit(f"//{request.host}").hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
