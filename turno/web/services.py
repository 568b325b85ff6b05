"""The services of an application, its live changes, and the addresses of its routes."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import ip_address
from os import getpid
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, LiteralString
from urllib.parse import urlsplit
from uuid import UUID

from flask import Flask, Request, Response, current_app, request
from markupsafe import Markup
from msgspec import Meta

from turno.capability import enabled, installed, job_filters, load
from turno.catalogue import catalogues
from turno.dispatch.dispatcher import Dispatcher, WebConnection
from turno.jobs.handler import JobHandler, Registry
from turno.jobs.redaction import Redaction
from turno.settings import Settings
from turno.store.api.jobs import Reader
from turno.store.operator.counts import Operator
from turno.tenancy.identity.directory import Directory
from turno.tenancy.identity.tenant import Tenant

if TYPE_CHECKING:
    from turno.web.api.submit import SubmissionPart
    from turno.web.auth import Principal, TokenCheck
    from turno.web.pages.page_routes import OperatorVisit
    from turno.web.pages.visit import Visit
    from turno.web.routes import Call


# Returns the user of a request, None without a session.
AskPrincipal = Callable[[Request], "Principal | None"]

Inline = Callable[[Tenant, type[JobHandler[Any]], Any, str], dict[str, Any] | None]  # payload, user
Clock = Callable[[], datetime]
JobSection = Callable[[Reader, "Visit", UUID], Markup]
OperatorJobSection = Callable[[Reader, "OperatorVisit", UUID], Markup]
OverviewSection = Callable[[Operator, "OperatorVisit"], Markup]
# Returns None when the service is ready for requests, else the reason, as a sentence.
Readiness = Callable[[], str | None]

# Returns the OpenAPI document as JSON and as a page, with the given prefix of its addresses.
Published = Callable[[str], tuple[str, str]]

NAME = "turno"
OF_CAPABILITIES = [name for capability in installed() for name in capability.job_links]
LINKS = ("items", "events", "attempts", *OF_CAPABILITIES, "cancel", "retry", "rerun")


LONGEST_WAIT = 300  # seconds: the largest value of the parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitQuery:
    """How long the caller waits for the job's end."""

    wait: Annotated[
        int,
        Meta(
            description="Seconds to wait for the job's end before the answer; the server may wait for less.",
            ge=0,
            le=LONGEST_WAIT,
        ),
    ] = 0


class Live:
    """The live changes of one web process; its length is the number of open streams.

    This class is for a process without the capability: no request waits.
    """

    def __len__(self) -> int:
        return 0

    def announce(self, tenant_id: int, job_id: UUID) -> None:
        """Notify every web process that a job changed; does not wait, and may be lost."""

    def await_end(self, call: "Call", query: WaitQuery, job_id: UUID, answer: Response) -> Response:  # noqa: ARG002
        """Return the answer that the caller waits for; at once if the job has ended or no wait is possible."""
        return answer

    def end_all(self) -> None:
        """End every stream and every wait: the process stops."""


def utc_now() -> datetime:
    """Return the time of this process."""
    return datetime.now(UTC)


@dataclass(kw_only=True)
class Services:
    """Services of routes: settings, handlers, database connections, the dispatcher and live changes.

    `connection` lends a web session in autocommit, `operator` one of the operator's login. `inline` runs a submission
    at once and returns its result: given, POST answers 200 instead of 202. `readiness` returns the reason, a sentence,
    why `/readyz` is not ready, or None. `principal` returns the user of a request and replaces the tokens; a request
    without a user is redirected to the address `sign_in`. All addresses begin with `url_prefix`. Pages extend the
    template `layout`, which has the blocks `title`, `turno_head` and `turno`.
    """

    settings: Settings
    registry: Registry
    dispatcher: Dispatcher
    directory: Directory
    connection: WebConnection
    live: Live
    operator: WebConnection | None = None
    inline: Inline | None = None
    readiness: Readiness | None = None
    clock: Clock = utc_now
    url_prefix: str = ""
    principal: AskPrincipal | None = None
    sign_in: str | None = None
    layout: str | None = None
    tokens: "TokenCheck | None" = field(init=False, default=None)  # set by `install`, as `published` is
    published: Published = field(init=False)
    process: int = field(init=False, default_factory=getpid)  # its connections belong to no other process

    def __post_init__(self) -> None:
        self.public = urlsplit(self.settings.public_url)
        self.redaction = Redaction(self.settings.redact, self.registry.handlers)
        self.catalogues = catalogues(self.registry)
        self.menu = self._declared("menu")
        self.operator_menu = self._declared("operator_menu")
        self.job_filters = job_filters(self.settings.capabilities)
        self.submission_parts: tuple[SubmissionPart, ...] = (*self._loaded("submissions"),)
        self.job_sections: list[JobSection] = self._loaded("job_sections")
        self.operator_job_sections: list[OperatorJobSection] = self._loaded("operator_job_sections")
        self.overview_sections: list[OverviewSection] = self._loaded("overview_sections")
        self.health_checks: list[LiteralString] = self._declared("health_checks")

    def _declared(self, name: str) -> list[Any]:
        """Return what the enabled capabilities declare in a field."""
        return [value for capability in enabled(self.settings.capabilities) for value in getattr(capability, name)]

    def _loaded(self, name: str) -> list[Any]:
        return [load(reference) for reference in self._declared(name)]


class Deferred:
    """The services of an application until their first use, which loads the handlers and reads the secret settings."""

    def __init__(self, build: Callable[[], Services]) -> None:
        self._build = build
        self._building = Lock()

    def replace_in(self, app: Flask) -> Services:
        """Return the services, which are built once and replace this object; raises InvalidSettings."""
        with self._building:
            if app.extensions[NAME] is self:
                app.extensions[NAME] = self._build()
        return services_of(app)


def services_of(app: Flask) -> Services:
    """Return an application's services; raises KeyError where there is no Turno in it."""
    current: Services | Deferred = app.extensions[NAME]
    return current.replace_in(app) if isinstance(current, Deferred) else current


def services() -> Services:
    """Return the services of the application that serves the present request."""
    return services_of(current_app)


def as_operator() -> AbstractContextManager[Operator]:
    """Lend a session of the operator's login, in autocommit, with the search path `turno`.

    The login sees all tenants, so each of its queries names the companies.
    """
    lend = services().operator
    assert lend is not None, "this application was installed without an operator's connection"  # noqa: S101
    return lend()


def at(path: str) -> str:
    """Return the browser's address of a path of Turno; of "" the prefix of all addresses."""
    application = services()
    return _mounted(application) + application.url_prefix + path


def requested_path() -> str:
    """Return the browser's address of the present request, without its query."""
    return _mounted(services()) + request.path


def over_https(request: Request) -> bool:
    """Return whether browsers use HTTPS, by TURNO_PUBLIC_URL or by the present request."""
    return request.is_secure or services().public.scheme == "https"


def requested_on_this_machine(request: Request) -> bool:
    """Return whether the browser's host name always means its own machine; any other may be redirected to it."""
    try:
        host = urlsplit(f"//{request.host}").hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _mounted(application: Services) -> str:
    """Return where the application is mounted.

    This is SCRIPT_NAME, as set by the server or a middleware of the host, else the path of TURNO_PUBLIC_URL.
    """
    return request.script_root or application.public.path


def job_links(job_id: UUID, root: str) -> dict[str, str]:
    """Return the addresses of a job and of its subresources and commands."""
    address = f"{root}/api/jobs/{job_id}"
    return {"self": address, **{name: f"{address}/{name}" for name in LINKS}}
