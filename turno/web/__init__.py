"""HTTP: requests in, problem details out."""

import re
from collections.abc import Sequence
from functools import partial

from flask import Blueprint, Flask
from werkzeug.exceptions import default_exceptions

from turno.capability import merged
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
from turno.web.services import NAME, Services

ROUTES = (job_submission, jobs, job_commands, job_history, notifications, health, docs)
PREFIX = re.compile(r"(/[\w.~-]+)+", re.ASCII)


def create_app(application: Services, pages: Sequence[Pages] = ()) -> Flask:
    """Return a Flask application with nothing but Turno in it; see `install`."""
    app = Flask(__name__, static_folder=None)
    install(app, application, pages)
    return app


def install(app: Flask, application: Services, pages: Sequence[Pages] = ()) -> None:
    """Add the API, the pages and the streams to an application; the first request opens the first connection.

    All of it is one blueprint: its checks, limits, headers and answers to errors concern no other route of the
    application. `pages` are the application's own, which precede Turno's. Raises InvalidSettings if tokens cannot be
    checked, ValueError for a prefix that is no path, and the errors of loading a handler's module.
    """
    prefix = application.url_prefix
    if prefix and not PREFIX.fullmatch(prefix):
        raise ValueError(f"url_prefix must be a path such as /jobs, without a slash at its end, not {prefix!r}")
    routes = [*ROUTES, *(blueprint for blueprint in application.routes if isinstance(blueprint, Routes))]
    shown = [blueprint for blueprint in application.routes if isinstance(blueprint, Pages)]
    application.tokens = None if application.principal else TokenCheck(application.settings)
    application.published = published(partial(build_document, routes, application.registry.handlers))
    app.extensions[NAME] = application
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
    for blueprint in (*pages, *routes, *shown, *(() if application.principal else (token_sign_in,))):
        turno.register_blueprint(blueprint)
    app.register_blueprint(turno)
    rules = [rule for rule in app.url_map.iter_rules() if rule.endpoint.rpartition(".")[0] in ours]
    merged("route", ({f"{method} {rule.rule}": rule} for rule in rules for method in sorted(rule.methods or ())))
