"""HTTP: requests in, problem details out."""

from datetime import UTC, datetime

from flask import Flask

from app.dispatch.dispatcher import Dispatcher, WebConnection
from app.jobs.registry import Registry
from app.settings import Settings
from app.streaming.hub import Hub
from app.web.api.admin import admin
from app.web.api.health import health
from app.web.api.job_commands import job_commands
from app.web.api.job_effects import job_effects
from app.web.api.job_history import job_history
from app.web.api.jobs import jobs
from app.web.api.notifications import notifications
from app.web.api.stream_tickets import stream_tickets
from app.web.api.streams import streams
from app.web.api.submit import submissions
from app.web.auth.cors import install_other_origins
from app.web.auth.tokens import TokenCheck
from app.web.error_responses import install_error_responses
from app.web.http.json_answers import JsonAnswers
from app.web.http.payloads import Payloads
from app.web.openapi.docs import docs, publish
from app.web.openapi.document import build_document
from app.web.pages.commands import commands
from app.web.pages.home import home
from app.web.pages.job_page import job_page
from app.web.pages.notifications_menu import bell
from app.web.pages.problem_page import refused_by_framework
from app.web.pages.sign_in import sign_in
from app.web.public_url import install_host_check
from app.web.security_headers import install_security_headers
from app.web.services import Clock, Inline, Readiness, Services
from tenants.identity.directory import Directory

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
PAGES = (sign_in, home, job_page, commands, bell)


def create_app(
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
) -> Flask:
    """Return the web application; nothing is connected until a request asks.

    `connection` lends a web session in autocommit; `hub` feeds the live streams. `inline` runs a submission at once
    and returns its result: given, POST answers 200 instead of 202. `readiness` says in a sentence what `/readyz`
    still waits for.
    Raises InvalidSettings if tokens cannot be checked, and whatever a handler's module raises when loaded.
    """
    handlers = registry.load_all()
    app = Flask(__name__)
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
    )
    services.serve(app)
    install_error_responses(app, refused_by_framework)
    install_security_headers(app)
    install_host_check(app, settings.public_url)
    install_other_origins(app)
    for blueprint in (*BLUEPRINTS, *PAGES):
        app.register_blueprint(blueprint)
    with app.app_context():
        publish(build_document(app, handlers, services.payloads))
    return app
