"""HTTP: requests in, problem details out."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flask import Blueprint, Flask

from turno.dispatch.dispatcher import Dispatcher, WebConnection
from turno.jobs.registry import Registry
from turno.settings import Settings
from turno.streaming.hub import Hub
from turno.tenancy.identity.directory import Directory
from turno.web.api.admin import admin
from turno.web.api.health import health
from turno.web.api.job_commands import job_commands
from turno.web.api.job_effects import job_effects
from turno.web.api.job_history import job_history
from turno.web.api.jobs import jobs
from turno.web.api.notifications import notifications
from turno.web.api.stream_tickets import stream_tickets
from turno.web.api.streams import streams
from turno.web.api.submit import submissions
from turno.web.auth.cors import install_cors
from turno.web.auth.tokens import TokenCheck
from turno.web.error_responses import install_error_responses
from turno.web.http.json_answers import JsonAnswers
from turno.web.http.payloads import Payloads
from turno.web.openapi.docs import docs, publish
from turno.web.openapi.document import build_document
from turno.web.pages.catalogue import catalogues
from turno.web.pages.commands import commands
from turno.web.pages.home import home
from turno.web.pages.job_page import job_page
from turno.web.pages.notifications_menu import notification_pages
from turno.web.pages.page_routes import Pages
from turno.web.pages.problem_page import refused_by_framework
from turno.web.pages.sign_in import sign_in
from turno.web.public_url import install_host_check
from turno.web.security_headers import install_security_headers
from turno.web.services import Clock, Inline, Readiness, Services

BLUEPRINTS = (
    submissions,
    jobs,
    job_commands,
    job_history,
    job_effects,
    notifications,
    streams,
    stream_tickets,
    admin,
    health,
    docs,
)
PAGES = (sign_in, home, job_page, commands, notification_pages)


def create_app(**services: Any) -> Flask:
    """Return a Flask application with nothing but Turno in it; see `install`."""
    app = Flask(__name__, static_folder=None)
    install(app, **services)
    return app


def install(
    app: Flask,
    *,
    settings: Settings,
    registry: Registry,
    dispatcher: Dispatcher,
    directory: Directory,
    connection: WebConnection,
    hub: Hub,
    inline: Inline | None = None,
    readiness: Readiness | None = None,
    clock: Clock = lambda: datetime.now(UTC),
    pages: Sequence[Pages] = (),
    locale: Path | None = None,
) -> None:
    """Add the API, the pages and the streams to an application; nothing is connected until a request asks.

    `connection` lends a web session in autocommit; `hub` feeds the live streams. `inline` runs a submission at once
    and returns its result: given, POST answers 200 instead of 202. `readiness` says in a sentence what `/readyz`
    still waits for. `pages` are the application's own, which stand before Turno's, and `locale` is the
    folder of its gettext catalogues.
    Raises InvalidSettings if tokens cannot be checked, and whatever a handler's module raises when loaded.
    """
    handlers = registry.load_all()
    app.json = JsonAnswers(app)
    app.config["MAX_CONTENT_LENGTH"] = settings.max_body_bytes
    app.url_map.merge_slashes = False
    services = Services(
        settings=settings,
        registry=registry,
        dispatcher=dispatcher,
        directory=directory,
        connection=connection,
        hub=hub,
        inline=inline,
        readiness=readiness,
        clock=clock,
        tokens=TokenCheck(settings),
        payloads=Payloads(handlers),
        catalogues=catalogues(locale),
    )
    services.serve(app)
    install_error_responses(app, refused_by_framework)
    install_security_headers(app)
    install_host_check(app, settings.public_url)
    install_cors(app)
    files = Blueprint("turno", __name__, static_folder="static", static_url_path="/static", template_folder="templates")
    # Of two pages at one address Flask shows the one that came first.
    for blueprint in (*pages, files, *BLUEPRINTS, *PAGES):
        app.register_blueprint(blueprint)
    with app.app_context():
        publish(build_document(app, handlers, services.payloads))
