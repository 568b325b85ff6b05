"""The least a web could do: one Flask route with one INSERT, under the same gunicorn settings as Turno's web."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask import Flask
from gunicorn.app.base import BaseApplication

from app.watch.stream_loop import StreamLoop
from app.web.stream_events import farewell
from cli.environment import read_settings
from cli.stream_worker import Application
from cli.web_server import gunicorn_settings
from cli.web_wiring import web_pool

if TYPE_CHECKING:
    from flask.typing import ResponseReturnValue

    from app.settings import Settings


def bare_application(settings: Settings) -> Flask:
    """Return an application whose only route inserts a row, over the same kind of pool."""
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
        """Take what Turno's web takes."""
        for name, value in gunicorn_settings(self._settings).items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        """Build the application, in the web process."""
        nobody = StreamLoop(farewell=farewell, left=lambda _viewer: None)
        nobody.start()
        return Application(bare_application(self._settings), nobody, largest_body=self._settings.max_body_bytes)


def serve() -> None:
    """Serve at WEB_BIND."""
    BareServer(read_settings()).run()
