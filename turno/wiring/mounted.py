"""Turno's web application in another application that authenticates the users."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterable
from functools import partial
from types import FrameType
from typing import Any

from flask import Flask

from turno.settings import Settings
from turno.web.services import services_of
from turno.wiring.web import Turno

PRINCIPAL = "turno.principal"  # key of the user in the WSGI environment


class Mounted:
    """The WSGI application of Turno, which the first request builds, under the prefix of this request."""

    def __init__(self, *, sign_in: str | None, settings: Settings | None) -> None:
        self._settings = settings
        self._sign_in = sign_in
        self._building = threading.Lock()
        self._app: Flask | None = None
        self._watches_signals = False

    def _wsgi(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        with self._building:
            if self._app is None:
                self._app = self._built(environ["SCRIPT_NAME"])
        return self._app(environ, start_response)

    def _built(self, root: str) -> Flask:
        app = Flask("turno.web", static_folder=None)
        app.config["APPLICATION_ROOT"] = root or "/"
        Turno(
            app,
            principal=lambda request: request.environ[PRINCIPAL],
            sign_in=self._sign_in,
            settings=self._settings,
        )
        services_of(app)
        return app

    def _watch_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        """End the streams at a signal that ends the server: a server waits for the end of each response."""
        if self._watches_signals or threading.current_thread() is not threading.main_thread():
            return
        self._watches_signals = True
        for number in (signal.SIGTERM, signal.SIGINT):
            handler = signal.getsignal(number)
            if callable(handler):
                signal.signal(number, partial(self._stop, loop, handler))

    def _stop(
        self,
        loop: asyncio.AbstractEventLoop,
        handler: Callable[[int, FrameType | None], Any],
        number: int,
        frame: FrameType | None,
    ) -> None:
        if self._app is not None:
            loop.call_soon_threadsafe(services_of(self._app).live.end_all)
        handler(number, frame)
