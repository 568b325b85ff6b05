"""The composition root of the web; called in each web process after the fork, and nowhere else."""

import atexit
from typing import Any

from flask import Flask
from psycopg_pool import ConnectionPool

from app.dispatch.backend_choice import BackendChoice
from app.dispatch.dispatcher import Dispatcher, Submission
from app.settings import Settings
from app.web import create_app
from app.web.services import Inline
from cli.wiring import backend_defaults, inline_runner, logins, queue_named
from handlers import build_registry
from tenants.directory import Directory
from tenants.punctual import PunctualConnection
from tenants.session import SERVICE_TIMEOUTS
from tenants.tenant import Tenant

# Seconds a request waits for a connection. There is one for each thread, so what it waits for is a database that
# does not answer, and the caller should hear of that soon.
PATIENCE = 2.0
# Seconds after which the pool gives up until the next request asks: its own pauses grow to minutes, and a database
# that is back would not be noticed for as long.
RECONNECT = 2.0


def web_application(settings: Settings) -> Flask:
    """Return the web application with a pool of its own, opened here; it connects in the background."""
    pool = web_pool(settings)
    choice = BackendChoice(
        connection=pool.connection,
        defaults=backend_defaults(settings),
        open_queue=lambda name: queue_named(name, settings),
    )
    dispatcher = Dispatcher(
        connection=pool.connection,
        queue=choice.queue_of,
        pending_limit=settings.max_pending_jobs_per_user,
    )
    return create_app(
        settings=settings,
        registry=build_registry(),
        dispatcher=dispatcher,
        directory=Directory(pool.connection),
        connection=pool.connection,
        inline=None if settings.enable_background_jobs else _inline(settings),
    )


def web_pool(settings: Settings) -> ConnectionPool[PunctualConnection]:
    """Return an open pool of sessions as the web's role, in autocommit, at most one for each thread."""
    known = logins(settings)
    pool: ConnectionPool[PunctualConnection] = ConnectionPool(
        known.conninfo(known.web, search_path="turno,pg_temp", application="turno-web", timeouts=SERVICE_TIMEOUTS),
        connection_class=PunctualConnection,
        kwargs={"autocommit": True, "connect_timeout": 3},
        # After a restart every session in the pool is dead; a ping is cheaper than as many failed requests.
        check=ConnectionPool.check_connection,
        min_size=min(2, settings.web_threads),
        max_size=settings.web_threads,
        timeout=PATIENCE,
        reconnect_timeout=RECONNECT,
        name="web",
        open=True,
    )
    # Its threads must end before the interpreter does, or they are found waiting for it.
    atexit.register(pool.close)
    return pool


def _inline(settings: Settings) -> Inline:
    runner = inline_runner(settings)

    def run(tenant: Tenant, wanted: Submission) -> dict[str, Any]:
        return runner.run(tenant, wanted.handler, wanted.payload, wanted.user_id)

    return run
