"""HTTP: requests in, problem details out."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

from flask import Blueprint, Flask
from werkzeug.exceptions import default_exceptions

from turno.capability import enabled, merged
from turno.catalogue import catalogues
from turno.dispatch.dispatcher import Dispatcher, WebConnection
from turno.jobs.handler import Registry
from turno.jobs.redaction import Redaction
from turno.named import load
from turno.settings import Settings
from turno.tenancy.identity.directory import Directory
from turno.web.admission import install_cors, install_security, install_unknown_address
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
from turno.web.services import NAME, AskPrincipal, Clock, Inline, Live, Readiness, Services, utc_now

ROUTES = (
    job_submission,
    jobs,
    job_commands,
    job_history,
    notifications,
    health,
    docs,
)
PREFIX = re.compile(r"(/[\w.~-]+)+", re.ASCII)


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
    live: Live,
    operator: WebConnection | None = None,
    inline: Inline | None = None,
    readiness: Readiness | None = None,
    clock: Clock = utc_now,
    pages: Sequence[Pages] = (),
    url_prefix: str = "",
    principal: AskPrincipal | None = None,
    sign_in: str | None = None,
    layout: str | None = None,
) -> None:
    """Add the API, the pages and the streams to an application; the first request opens the first connection.

    All of it is one blueprint: its checks, limits, headers and answers to errors concern no other route of the
    application.

    `connection` lends a web session in autocommit, `operator` one of the operator's login; `live` provides live
    changes. `inline` runs a submission at once and returns its result: given, POST answers 200 instead of 202.
    `readiness` returns the reason, a sentence, why `/readyz` is not ready, or None. `pages` are the application's own,
    which stand before Turno's. `principal` returns the user of a request and replaces the tokens; a request without a
    user is redirected to the address `sign_in`. Pages extend the template `layout`, which has the blocks `title`,
    `turno_head` and `turno`. Raises InvalidSettings if tokens cannot be checked, ValueError for a prefix that is no
    path, and the errors of loading a handler's module.
    """
    if url_prefix and not PREFIX.fullmatch(url_prefix):
        raise ValueError(f"url_prefix must be a path such as /jobs, without a slash at its end, not {url_prefix!r}")
    handlers = registry.handlers
    capabilities = enabled(settings.capabilities)
    declared = [load(place) for one in capabilities for place in one.routes]
    routes = (*ROUTES, *(one for one in declared if isinstance(one, Routes)))
    shown = tuple(one for one in declared if isinstance(one, Pages))
    app.extensions[NAME] = Services(
        settings=settings,
        registry=registry,
        redaction=Redaction(settings.redact, handlers),
        dispatcher=dispatcher,
        directory=directory,
        connection=connection,
        operator=operator,
        live=live,
        inline=inline,
        readiness=readiness,
        clock=clock,
        tokens=None if principal else TokenCheck(settings),
        catalogues=catalogues(registry),
        published=published(partial(build_document, routes, handlers)),
        submission_parts=tuple(load(place) for one in capabilities for place in one.submissions),
        menu=tuple(link for one in capabilities for link in one.menu),
        operator_menu=tuple(link for one in capabilities for link in one.operator_menu),
        job_sections=tuple(load(place) for one in capabilities for place in one.job_sections),
        operator_job_sections=tuple(load(place) for one in capabilities for place in one.operator_job_sections),
        overview_sections=tuple(load(place) for one in capabilities for place in one.overview_sections),
        prefix=url_prefix,
        principal=principal,
        sign_in=sign_in,
        layout=layout,
    )
    turno = Blueprint(
        "turno",
        __name__,
        static_folder="static",
        static_url_path="/static",
        template_folder="templates",
        url_prefix=url_prefix or None,
    )
    install_security(turno)
    install_cors(turno)
    # By code, too: a handler that the application has for a code would otherwise come before ours for all errors.
    turno.register_error_handler(Exception, answer_error)
    for code in default_exceptions:
        turno.register_error_handler(code, answer_error)
    # Flask serves the first of two pages at the same address.
    ours = {f"turno.{name}" for name in merged("blueprint", ({one.name: one} for one in (*routes, *shown)))}
    for blueprint in (*pages, *routes, *shown, *(() if principal else (token_sign_in,))):
        turno.register_blueprint(blueprint)
    install_unknown_address(turno)
    app.register_blueprint(turno)
    rules = [rule for rule in app.url_map.iter_rules() if rule.endpoint.rpartition(".")[0] in ours]
    merged("route", ({f"{method} {rule.rule}": rule} for rule in rules for method in sorted(rule.methods or ())))
