"""gunicorn's threads, from which a request may take its connection along to become a stream."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from gunicorn.http import wsgi
from gunicorn.workers.gthread import ThreadWorker

from app.watch.stream_loop import STREAMS, HandedOver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from app.watch.stream_loop import StreamLoop


class Application:
    """The WSGI application together with the loop that serves its streams."""

    def __init__(self, wsgi_app: Callable[..., Iterable[bytes]], streams: StreamLoop) -> None:
        self._wsgi_app = wsgi_app
        self.streams = streams

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request."""
        environ[STREAMS] = self.streams
        return self._wsgi_app(environ, start_response)


class StreamWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """A thread admits a stream and is free again; the loop serves it. At SIGTERM streams end at once."""

    def init_process(self) -> None:
        """Begin to serve."""
        wsgi.Response = NamelessResponse
        super().init_process()

    def run(self) -> None:
        """Serve until told to stop; then return when the streams, too, have ended."""
        super().run()
        self.wsgi.streams.finish()

    def handle_request(self, req: Any, conn: Any) -> Any:
        """Answer a request, or hand its connection over."""
        try:
            return super().handle_request(req, conn)
        except HandedOver as handed:
            self.wsgi.streams.adopt(conn.sock, handed)
            conn.sock = socket.socket()  # for gunicorn to close
            return False

    def handle_error(self, req: Any, client: Any, addr: Any, exc: Any) -> None:
        """Answer what could not be handled; the log names the address without its query, which may hold a ticket."""
        if hasattr(req, "uri"):
            req.uri = req.path
        super().handle_error(req, client, addr, exc)

    def handle_exit(self, sig: Any, frame: Any) -> None:
        """Stop accepting, and have the streams say goodbye."""
        self.wsgi.streams.stop()
        super().handle_exit(sig, frame)


class NamelessResponse(wsgi.Response):  # type: ignore[misc]
    """Does not tell which server this is."""

    def default_headers(self) -> list[str]:
        """Return the headers that are the server's own."""
        return [line for line in super().default_headers() if not line.startswith("Server:")]
