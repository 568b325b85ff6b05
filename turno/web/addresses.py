"""Turno's addresses: below its own prefix, and below wherever the application that it is part of is mounted."""

from urllib.parse import urlsplit

from flask import request

from turno.web.services import services


def at(path: str) -> str:
    """Return the address at which a browser finds one of Turno's paths; of "" the address that all others begin with.

    Where the application is mounted says SCRIPT_NAME, as the server or a middleware of the host's sets it, else the
    path of PUBLIC_URL.
    """
    mounted = request.script_root or urlsplit(services().settings.public_url).path
    return mounted + services().prefix + path
