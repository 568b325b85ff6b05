"""An answer that goes on: over the loop that takes the connection where there is one, else over any WSGI server."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from flask import Response, g, request
from werkzeug.http import http_date

from turno.streaming.stream_loop import STREAMS, HandedOver
from turno.streaming.subscriber import Subscriber
from turno.web.services import services

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

# Proxies must neither keep nor gather what is sent here.
HEADERS = {"X-Accel-Buffering": "no", "Cache-Control": "no-store"}


class StreamResponse(Response):
    """What a subscriber is shown, from `first` on; `frames` is how to get it where no loop serves streams."""

    def __init__(
        self, subscriber: Subscriber, *, first: bytes, frames: Iterator[bytes], left: Callable[[], None]
    ) -> None:
        super().__init__(frames, mimetype="text/event-stream", headers=HEADERS)
        self._subscriber = subscriber
        self._first = first
        self._left = left
        self._begun = False
        self.call_on_close(left)

    def give_up(self) -> None:
        """Give the subscriber's place back if the answer never began: something failed before the server had it."""
        if not self._begun:
            self._left()

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Answer, or raise HandedOver for the server to hand the connection to its loop."""
        if STREAMS not in environ:
            self._begun = True
            return super().__call__(environ, start_response)
        head = head_of(self, environ) + self._first
        self._begun = True
        raise HandedOver(head, self._subscriber)


def head_of(response: Response, environ: dict[str, Any]) -> bytes:
    """Return what stands before the body of an answer that the loop sends: the connection ends with it."""
    own = (("Date", http_date()), ("Connection", "close"))
    lines = [f"{name}: {value}\r\n" for name, value in (*own, *response.get_wsgi_headers(environ).items())]
    return f"HTTP/1.1 {response.status}\r\n{''.join(lines)}\r\n".encode("latin-1")


def most_on_threads() -> int | None:
    """Return how many streams this server may have at once; None where a loop serves them, and no thread waits.

    Elsewhere each holds a thread: half of them are left to those who ask for something else.
    """
    if STREAMS in request.environ:
        return None
    return services().settings.web_threads // 2 if request.environ["wsgi.multithread"] else 0


def give_up_unbegun(_error: BaseException | None) -> None:
    """Give the place of the present request's stream back if its answer never began; runs at a request's end."""
    opened = g.pop("turno_stream", None)
    if opened is not None:
        opened.give_up()
