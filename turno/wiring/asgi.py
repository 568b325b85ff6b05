"""Turno in an application of FastAPI, Starlette or another ASGI framework, on the application's own server."""

import asyncio
from collections.abc import Awaitable, Callable
from ipaddress import ip_network

from turno.environment import public_settings
from turno.http_server.front import Front, Receive, Scope, Send
from turno.settings import Settings
from turno.web.auth import Principal
from turno.wiring.mounted import PRINCIPAL, Mounted


class TurnoASGI(Mounted):
    """Turno's API, pages and streams, for an application of ASGI to mount: `app.mount("/jobs", TurnoASGI(…))`.

    The first request loads the handlers and opens the first connection. `principal` is awaited for each request: it
    returns the signed-in user of the scope, or None; a page then redirects to the address `sign_in`. The application
    handles the exceptions of `principal`. Threads handle the requests, the event loop sends the streams and ends them
    when the process gets SIGTERM or SIGINT. The default settings come from the environment.
    """

    def __init__(
        self,
        *,
        principal: Callable[[Scope], Awaitable[Principal | None]],
        sign_in: str | None = None,
        settings: Settings | None = None,
    ) -> None:
        super().__init__(sign_in=sign_in, settings=settings)
        public = settings or public_settings(dotenv=False)
        self._principal = principal
        self._front = Front(
            self._wsgi,
            threads=public.web_threads,
            largest_body=public.limits.body_bytes,
            trusted=[ip_network(proxy) for proxy in public.trusted_proxies],
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; refuse a websocket."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
        if scope["type"] == "http":
            self._watch_signals(asyncio.get_running_loop())
            await self._front(scope, receive, send, {PRINCIPAL: await self._principal(scope)})
