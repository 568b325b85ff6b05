"""The web application as StreamWorker serves it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turno.streaming.stream_loop import STREAMS
from turno.web.thread_shares import PLACES, WANTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from turno.streaming.stream_loop import StreamLoop
    from turno.web.thread_shares import ThreadShares


class NoPlace(OSError):
    """Raised instead of answering: the tenant's places are all taken, and the request may be asked again.

    An OSError, because that is what gunicorn lets pass untouched.
    """

    def __init__(self, tenant: int) -> None:
        super().__init__("the tenant has its share of the threads")
        self.tenant = tenant


class Application:
    """The WSGI application with the loop that serves its streams and the places of its tenants.

    It refuses bodies above `largest_body`.
    """

    def __init__(
        self, wsgi_app: Callable[..., Iterable[bytes]], streams: StreamLoop, *, places: ThreadShares, largest_body: int
    ) -> None:
        self._wsgi_app = wsgi_app
        self.streams = streams
        self.places = places
        self.largest_body = largest_body

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request."""
        environ[STREAMS], environ[PLACES] = self.streams, self.places
        answer = self._wsgi_app(environ, start_response)
        if (tenant := environ.get(WANTED)) is not None and environ["gunicorn.socket"].patient:
            getattr(answer, "close", lambda: None)()
            raise NoPlace(tenant)
        return answer
