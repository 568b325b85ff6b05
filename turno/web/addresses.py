"""Turno's addresses: below its own prefix, and below wherever the application that it is part of is mounted."""

from urllib.parse import urlsplit

from flask import request

from turno.web.services import services


def at(path: str) -> str:
    """Return the address at which a browser finds a path of Turno's; of "" what all of them begin with."""
    return _mounted() + services().prefix + path


def asked_path() -> str:
    """Return the address of the present request as a browser asked for it, without its query."""
    return _mounted() + request.path


def _mounted() -> str:
    """Return where the application is mounted.

    SCRIPT_NAME says it, as the server or a middleware of the host's sets it, else the path of TURNO_PUBLIC_URL.
    """
    return request.script_root or urlsplit(services().settings.public_url).path
