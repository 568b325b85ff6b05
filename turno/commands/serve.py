"""The command `turno serve`."""

import click

from turno.environment import read_settings
from turno.http_server.web_server import Served, WebServer
from turno.settings import Settings
from turno.wiring.logins import logins_of
from turno.without_secrets import WEB_NEEDS, seal


@click.command(epilog="Example: turno serve")
def serve() -> None:
    """Serve the API and the pages at TURNO_WEB_BIND until SIGTERM."""
    seal(*WEB_NEEDS)
    settings = read_settings().require("database_url", "master_key")
    if not settings.web_app:  # an application may use its own login
        settings.require("jwt_key")
    logins_of(settings)
    WebServer(settings, _application).run()


def _application(settings: Settings) -> Served:
    from turno.wiring.web import serving_application  # noqa: PLC0415 - the parent imports no flask

    return serving_application(settings)
