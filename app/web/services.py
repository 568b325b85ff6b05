"""What the routes work with; handed in by wiring, found through the application that serves the request."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from flask import Flask, current_app

from app.dispatch.dispatcher import Dispatcher, Submission, WebConnection
from app.jobs.registry import Registry
from app.settings import Settings
from app.streaming.hub import Hub
from app.web.auth.tokens import TokenCheck
from app.web.http.payloads import Payloads
from tenants.identity.directory import Directory
from tenants.identity.tenant import Tenant

Inline = Callable[[Tenant, Submission], dict[str, Any]]
Clock = Callable[[], datetime]
# Returns None when the service may get requests, else a sentence that says what it waits for.
Readiness = Callable[[], str | None]

_NAME = "turno"


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Everything outside this room that a route may use."""

    settings: Settings
    registry: Registry
    dispatcher: Dispatcher
    directory: Directory
    connection: WebConnection
    hub: Hub
    inline: Inline | None
    readiness: Readiness | None
    clock: Clock
    tokens: TokenCheck
    payloads: Payloads

    def serve(self, app: Flask) -> None:
        """Make these the services of an application."""
        app.extensions[_NAME] = self


def services() -> Services:
    """Return the services of the application that serves the present request."""
    return cast("Services", current_app.extensions[_NAME])
