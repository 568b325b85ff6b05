"""The command `turno serve`."""

from __future__ import annotations

import click

from cli.environment import read_settings
from cli.http_server.web_server import WebServer
from cli.wiring import logins
from cli.without_secrets import WEB_NEEDS, seal


@click.command()
def serve() -> None:
    """Serve the API and the pages until SIGTERM, with WEB_WORKERS processes of WEB_THREADS threads at WEB_BIND."""
    seal(*WEB_NEEDS)
    settings = read_settings().require("database_url", "master_key", "jwt_key")
    logins(settings)
    WebServer(settings).run()
