"""The least a web could do: one Flask route with one INSERT, with as many threads as Turno's web."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask import Flask
from gunicorn.app.base import BaseApplication

from turno.environment import read_settings
from turno.wiring.web import web_pool

if TYPE_CHECKING:
    from flask.typing import ResponseReturnValue

    from turno.settings import Settings


def bare_application(settings: Settings) -> Flask:
    """Return an application with a single route, which inserts a row over the same kind of pool."""
    app = Flask("bare")
    pool = web_pool(settings)

    @app.post("/")
    def insert() -> ResponseReturnValue:
        with pool.connection() as connection:
            connection.execute("INSERT INTO turno.floor (i) VALUES (1)")
        return {"status": "accepted"}, 202

    return app


class BareServer(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """Runs in the foreground until SIGTERM."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        super().__init__()

    def load_config(self) -> None:
        """Take the address and the number of threads of Turno's web."""
        self.cfg.set("bind", self._settings.web_bind)
        self.cfg.set("worker_class", "gthread")
        self.cfg.set("threads", self._settings.web_threads)
        self.cfg.set("control_socket_disable", True)  # noqa: FBT003 - gunicorn's signature

    def load(self) -> Any:
        """Build the application, in the web process."""
        return bare_application(self._settings)


def serve() -> None:
    """Serve at TURNO_WEB_BIND."""
    BareServer(read_settings()).run()
