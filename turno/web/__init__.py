"""HTTP: requests in, problem details out."""

import re
from collections.abc import Callable, Sequence
from functools import partial

from flask import Blueprint, Flask
from werkzeug.exceptions import default_exceptions

from turno.capability import enabled, load, merged
from turno.web.admission import install_admission
from turno.web.api.health import health
from turno.web.api.job_commands import job_commands
from turno.web.api.jobs import job_history, jobs
from turno.web.api.notifications import notifications
from turno.web.api.submit import job_submission
from turno.web.auth import TokenCheck
from turno.web.openapi import build_document, docs, published
from turno.web.pages.page_routes import Pages
from turno.web.pages.problem_pages import answer_error
from turno.web.pages.problem_pages import sign_in as token_sign_in
from turno.web.routes import Routes
from turno.web.services import NAME, Deferred, Services, services_of

ROUTES = (job_submission, jobs, job_commands, job_history, notifications, health, docs)
PREFIX = re.compile(r"(/[\w.~-]+)+", re.ASCII)


def create_app(application: Services, pages: Sequence[Pages] = ()) -> Flask:
    """Return a Flask application with nothing but Turno in it; see `install`."""
    app = Flask(__name__, static_folder=None)
    install(app, application, pages)
    return app


def install(app: Flask, application: Services, pages: Sequence[Pages] = ()) -> None:
    """Add Turno with these services to an application; see `install_routes`. Raises InvalidSettings for a bad key."""
    install_routes(
        app,
        lambda: application,
        pages,
        capabilities=application.settings.capabilities,
        prefix=application.url_prefix,
        tokens=application.principal is None,
    )
    services_of(app)


def install_routes(
    app: Flask,
    build: Callable[[], Services],
    pages: Sequence[Pages],
    *,
    capabilities: str,
    prefix: str,
    tokens: bool,
) -> None:
    """Add the API, the pages and the streams to an application; the first request builds the services.

    All of it is one blueprint: its checks, limits, headers and answers to errors concern no other route of the
    application. `pages` are the application's own, which precede Turno's. With `tokens`, users sign in with a token.
    Raises ValueError for a prefix that is no path.
    """
    if prefix and not PREFIX.fullmatch(prefix):
        raise ValueError(f"url_prefix must be a path such as /jobs, without a slash at its end, not {prefix!r}")
    declared = [load(reference) for capability in enabled(capabilities) for reference in capability.routes]
    routes = [*ROUTES, *(blueprint for blueprint in declared if isinstance(blueprint, Routes))]
    shown = [blueprint for blueprint in declared if isinstance(blueprint, Pages)]

    def complete() -> Services:
        application = build()
        application.tokens = TokenCheck(application.settings) if tokens else None
        application.published = published(partial(build_document, routes, application.registry.handlers))
        return application

    app.extensions[NAME] = Deferred(complete)
    turno = Blueprint(
        "turno",
        __name__,
        static_folder="static",
        static_url_path="/static",
        template_folder="templates",
        url_prefix=prefix or None,
    )
    install_admission(turno)
    # By code, too: a handler that the application has for a code would otherwise come before ours for all errors.
    turno.register_error_handler(Exception, answer_error)
    for code in default_exceptions:
        turno.register_error_handler(code, answer_error)
    # Flask serves the first of two pages at the same address.
    ours = {
        f"turno.{name}"
        for name in merged("blueprint", ({blueprint.name: blueprint} for blueprint in (*routes, *shown)))
    }
    for blueprint in (*pages, *routes, *shown, *((token_sign_in,) if tokens else ())):
        turno.register_blueprint(blueprint)
    app.register_blueprint(turno)
    rules = [rule for rule in app.url_map.iter_rules() if rule.endpoint.rpartition(".")[0] in ours]
    merged("route", ({f"{method} {rule.rule}": rule} for rule in rules for method in sorted(rule.methods or ())))
