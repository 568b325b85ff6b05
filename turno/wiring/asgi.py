"""Turno in an application of FastAPI, Starlette or another ASGI framework, on the application's own server."""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from ipaddress import ip_network
from types import FrameType
from typing import Any

from flask import Flask

from turno.environment import read_settings
from turno.http_server.front import Front, Receive, Scope, Send
from turno.settings import Settings
from turno.web.auth import Principal
from turno.web.services import services_of
from turno.wiring.web import Turno

PRINCIPAL = "turno.principal"  # key of the user in the WSGI environment


class TurnoASGI:
    """Turno's API, pages and streams, for an application of ASGI to mount: `app.mount("/jobs", TurnoASGI(…))`.

    The first request opens the first connection. `principal` is awaited for each request: it returns the signed-in
    user of the scope, or None; a page then redirects to the address `sign_in`. The application handles the exceptions
    of `principal`. Threads handle the requests, the event loop sends the streams and ends them when the process gets
    SIGTERM or SIGINT. The default settings come from the environment.
    """

    def __init__(
        self,
        *,
        principal: Callable[[Scope], Awaitable[Principal | None]],
        sign_in: str | None = None,
        settings: Settings | None = None,
    ) -> None:
        self._settings = settings or read_settings(dotenv=False)
        self._principal = principal
        self._sign_in = sign_in
        self._front = Front(
            self._wsgi,
            threads=self._settings.web_threads,
            largest_body=self._settings.limits.body_bytes,
            trusted=[ip_network(proxy) for proxy in self._settings.trusted_proxies],
        )
        self._building = threading.Lock()
        self._app: Flask | None = None
        self._watches_signals = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; refuse a websocket."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
        if scope["type"] == "http":
            self._watch_signals(asyncio.get_running_loop())
            await self._front(scope, receive, send, {PRINCIPAL: await self._principal(scope)})

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
