"""The composition root of the web: the first request of a web process builds its services."""

import atexit
import logging
import resource
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from flask import Flask
from psycopg_pool import ConnectionPool

from turno.capability import enabled, load
from turno.dispatch.dispatcher import BackendChoice, Dispatcher
from turno.environment import public_settings, read_settings, variables
from turno.errors import InvalidSettings
from turno.jobs.handler import Registry, named_handlers
from turno.maintenance.tasks import UNATTENDED
from turno.queues.interface import QueueInterface
from turno.settings import Settings
from turno.tenancy.identity.connections import TimeoutConnection, check_open
from turno.tenancy.identity.directory import Directory
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.session import WEB_TIMEOUTS, assert_pinned
from turno.tenancy.schema_migrations.lacking import what_is_pending
from turno.web import install_routes
from turno.web.pages.page_routes import Pages
from turno.web.services import AskPrincipal, Live, Services, services_of
from turno.wiring.logins import logins_of
from turno.wiring.shared import inline_runner, queue_named, regular_maintenance, run_deliveries

if TYPE_CHECKING:
    from turno.http_server.web_server import Served

log = logging.getLogger(__name__)

EVERY = timedelta(seconds=3)  # one query of a lease
STOPS_WITHIN = 2.0  # seconds that the end of the process waits for a round
# Seconds for which a request waits for a connection. Each thread has a connection, so only a database that does not
# answer causes a wait, and the caller needs an early error.
POOL_TIMEOUT_SECONDS = 2.0
# Seconds after which the pool gives up until the next request: its own pauses grow to minutes, and would delay the use
# of a database that is back.
POOL_RECONNECT_SECONDS = 2.0
SPARE_DESCRIPTORS = 1000
MOST_OPERATORS = 4  # sessions of the operator's login that a web process has open, while operators ask

MAINTENANCE = "turno.maintenance"  # the WebMaintenance among a Flask application's extensions


class WebMaintenance:
    """A thread that runs the due tasks whenever the lease of maintenance was not taken in time by another process."""

    def __init__(self, settings: Settings, registry: Registry) -> None:
        self._settings = settings
        self._registry = registry
        self._starting = Lock()
        self._thread: Thread | None = None
        self._stopped = Event()

    def start(self) -> None:
        """Start the thread, once in a process."""
        with self._starting:
            if self._thread is None:
                self._thread = Thread(target=self._run, name="maintenance", daemon=True)
                self._thread.start()
                atexit.register(self.stop)

    def stop(self) -> None:
        """Begin no further round."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(STOPS_WITHIN)

    def _run(self) -> None:
        with regular_maintenance(self._settings, self._registry, every=EVERY, after=UNATTENDED) as tasks:
            while True:
                try:
                    if tasks.run_unattended():
                        run_deliveries(self._settings)
                except Exception:
                    log.exception("maintenance failed, the next round tries again")
                if self._stopped.wait(EVERY.total_seconds()):
                    return


class Turno:
    """Adds the API, the pages and the live streams to a Flask application, with a separate pool of connections.

    The first request loads the handlers and opens the first connection, so handlers may import the application. All
    addresses have the prefix `url_prefix`. `principal` replaces the tokens: it returns the signed-in user, or None; a
    page then redirects a request without a user to the address `sign_in`. `layout` names a template around the pages,
    with the blocks `title`, `turno_head` and `turno`. `pages` are blueprints of the application, which precede the
    pages. The default settings come from the environment.
    """

    def __init__(
        self,
        app: Flask,
        *,
        url_prefix: str = "",
        principal: AskPrincipal | None = None,
        sign_in: str | None = None,
        layout: str | None = None,
        pages: Sequence[Pages] = (),
        settings: Settings | None = None,
    ) -> None:
        public = settings or public_settings(dotenv=False)

        def build() -> Services:
            return _services(
                app,
                settings or read_settings(dotenv=False),
                url_prefix=url_prefix,
                principal=principal,
                sign_in=sign_in,
                layout=layout,
            )

        tokens = principal is None
        install_routes(app, build, pages, capabilities=public.capabilities, prefix=url_prefix, tokens=tokens)


def _services(app: Flask, settings: Settings, *, url_prefix: str, **of_the_host: Any) -> Services:
    """Return the services of a Flask application; raises InvalidSettings, as for handlers that cannot be imported."""
    mounted = urlsplit(settings.public_url).path or app.config["APPLICATION_ROOT"].rstrip("/")
    registry = named_handlers(settings.handlers)
    live, pool = live_changes(settings, mounted + url_prefix), web_pool(settings)
    operators = operator_pool(settings)
    upkeep = app.extensions[MAINTENANCE] = WebMaintenance(settings, registry)

    lend = partial(Loan, pool)
    choice = BackendChoice(
        connection=lend,
        default=settings.queue_backend,
        open_queue=partial(_open_queue, settings, upkeep),
    )
    dispatcher = Dispatcher(
        connection=lend,
        queue=choice.queue_of,
        pending_limit=settings.limits.pending,
        day_limits=settings.limits.per_day,
        command_limits=settings.limits.per_minute,
        announce=live.announce,
    )
    return Services(
        settings=settings,
        registry=registry,
        dispatcher=dispatcher,
        directory=Directory(lend),
        connection=lend,
        operator=partial(Loan, operators),
        live=live,
        readiness=partial(_pending, pool),
        inline=None if settings.enable_background_jobs else inline_runner(settings, partial(_server_version, pool)).run,
        url_prefix=url_prefix,
        **of_the_host,
    )


def _open_queue(settings: Settings, upkeep: WebMaintenance, name: str) -> QueueInterface:
    if name == "exec":  # no resident process may exist to recover the workers that this process launches
        upkeep.start()
    return queue_named(name, settings, variables(dotenv=False))


def serving_application(settings: Settings) -> "Served":
    """Return the application of TURNO_WEB_APP, else that of Turno alone."""
    from turno.http_server.web_server import Served  # noqa: PLC0415 - a mounting application has no uvicorn

    allow_descriptors(settings.limits.streams + SPARE_DESCRIPTORS)
    if settings.web_app:
        app = _named(settings.web_app)
    else:
        app = Flask("turno.web", static_folder=None)
        Turno(app, settings=settings)
    live = services_of(app).live  # wrong settings and handlers prevent the start
    if settings.enable_background_jobs:
        app.extensions[MAINTENANCE].start()
    largest_body = max(settings.limits.body_bytes, app.config["MAX_CONTENT_LENGTH"] or 0)
    return Served(app, largest_body, stop=live.end_all)


def _named(reference: str) -> Flask:
    try:
        app = load(reference)()
    except InvalidSettings:
        raise
    except Exception as error:  # a module may raise anything
        raise InvalidSettings([f"TURNO_WEB_APP={reference}: {type(error).__name__}: {error}"]) from error
    if not (isinstance(app, Flask) and "turno" in app.extensions):
        raise InvalidSettings(
            [f"TURNO_WEB_APP={reference}: expected a function that returns a Flask application with Turno"]
        )
    return app


def _pending(pool: ConnectionPool[TimeoutConnection]) -> str | None:
    with pool.connection() as connection:
        return what_is_pending(connection)


def live_changes(settings: Settings, root: str = "") -> Live:
    """Return the live changes of the enabled capability; links in streams have the prefix `root`."""
    places = [capability.live for capability in enabled(settings.capabilities) if capability.live]
    live: Live = load(places[0])(settings, logins_of(settings), root) if places else Live()
    return live


def allow_descriptors(wanted: int) -> None:
    """Raise this process's limit of open files to the number its streams need, up to the system's limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft < highest:
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))


class Loan:
    """A session of a pool, for one block: unlike the pool's own, it commits nothing, as sessions are in autocommit."""

    def __init__(self, pool: ConnectionPool[TimeoutConnection]) -> None:
        self._pool = pool

    def __enter__(self) -> TimeoutConnection:
        self._session = self._pool.getconn()
        return self._session

    def __exit__(self, *_error: object) -> None:
        self._pool.putconn(self._session)


def web_pool(settings: Settings) -> ConnectionPool[TimeoutConnection]:
    """Return an open pool of sessions as the web's role, in autocommit, at most one for each thread."""
    logins = logins_of(settings)
    return _pool(logins, logins.web, "web", min_size=min(2, settings.web_threads), max_size=settings.web_threads)


def operator_pool(settings: Settings) -> ConnectionPool[TimeoutConnection]:
    """Return a pool of sessions as the operator's role, in autocommit; the first is opened at its first use."""
    logins = logins_of(settings)
    return _pool(logins, logins.operator, "admin", min_size=0, max_size=MOST_OPERATORS, max_idle=30.0)


def _pool(logins: Logins, role: str, name: str, **sizes: Any) -> ConnectionPool[TimeoutConnection]:
    pool: ConnectionPool[TimeoutConnection] = ConnectionPool(
        logins.conninfo(role, search_path="turno,pg_temp", application=f"turno-{name}", timeouts=WEB_TIMEOUTS),
        connection_class=TimeoutConnection,
        kwargs={"autocommit": True, "connect_timeout": 3},
        configure=lambda connection: assert_pinned(connection, role),
        check=check_open,
        timeout=POOL_TIMEOUT_SECONDS,
        reconnect_timeout=POOL_RECONNECT_SECONDS,
        name=name,
        open=True,
        **sizes,
    )
    # Its threads must end before the interpreter does, or they are found waiting for it.
    atexit.register(pool.close)
    return pool


def _server_version(pool: ConnectionPool[TimeoutConnection]) -> int:
    with pool.connection() as connection:
        return connection.info.server_version
