"""Addresses of Turno below its prefix and the mount point of the application, and the way browsers reach them."""

from ipaddress import ip_address
from urllib.parse import urlsplit

from flask import Request, request

from turno.web.services import services


def at(path: str) -> str:
    """Return the address at which a browser finds a path of Turno's; of "" what all of them begin with."""
    return _mounted() + services().prefix + path


def asked_path() -> str:
    """Return the address of the present request as a browser asked for it, without its query."""
    return _mounted() + request.path


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


def _mounted() -> str:
    """Return where the application is mounted.

    SCRIPT_NAME says it, as the server or a middleware of the host's sets it, else the path of TURNO_PUBLIC_URL.
    """
    return request.script_root or urlsplit(services().settings.public_url).path
