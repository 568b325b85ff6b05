"""A request of ASGI for a WSGI application, and the response of that application."""

import io
import logging
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, MutableMapping, Sequence
from contextlib import aclosing
from http import HTTPStatus
from typing import Any

from turno.http_server.client_connection import Network, network_of
from turno.http_server.thread_shares import EVENT_LOOP

log = logging.getLogger(__name__)

PART_BYTES = 262_144  # bytes of a response that a thread reads in one step
ERROR = b'{"type": "about:blank", "title": "Internal Server Error", "status": 500}'

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class ClientLeft(Exception):
    """The client closed the connection before its request was complete."""


def environ_of(scope: Scope, body: bytes, *, complete: bool, trusted: Sequence[Network]) -> dict[str, Any]:
    """Return the WSGI environment of a request; `trusted` proxies may state that browsers use HTTPS."""
    server, client = scope["server"] or ("", 0), (scope["client"] or ("", 0))[0]
    root = scope.get("root_path", "")  # the path contains it
    environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": root.encode().decode("latin-1"),
        "PATH_INFO": scope["path"].removeprefix(root).encode().decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": server[0],
        "SERVER_PORT": str(server[1]),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": client,
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        "wsgi.input": io.BytesIO(body),
        "wsgi.input_terminated": True,
        EVENT_LOOP: True,
    }
    for name, value in scope["headers"]:
        # A name with an underscore would be that of another header in this environment.
        if b"_" in name:
            continue
        key, text = name.decode("latin-1").upper().replace("-", "_"), value.decode("latin-1")
        if name not in {b"content-type", b"content-length"}:
            key = f"HTTP_{key}"
        environ[key] = f"{environ[key]},{text}" if key in environ else text
    if "HTTP_TRANSFER_ENCODING" in environ and complete:
        del environ["HTTP_TRANSFER_ENCODING"]
        environ["CONTENT_LENGTH"] = str(len(body))
    if environ.get("HTTP_X_FORWARDED_PROTO") == "https" and network_of(client, trusted=trusted) is None:
        environ["wsgi.url_scheme"] = "https"
    return environ


class WsgiResponse:
    """The response of a WSGI application, and the part of its body that was read; created by a thread."""

    def __init__(self, wsgi_app: WsgiApp, environ: dict[str, Any]) -> None:
        self.asynchronous = self.over = False
        try:
            self.body: Any = wsgi_app(environ, self._start)
            self.asynchronous = hasattr(self.body, "__aiter__")
            if not self.asynchronous:
                self._parts = iter(self.body)
                self.read()
        except Exception:
            log.exception("the application raised an error")
            self.status, self.headers = (
                HTTPStatus.INTERNAL_SERVER_ERROR.value,
                [(b"content-length", b"%d" % len(ERROR))],
            )
            self.part, self.over, self.asynchronous = ERROR, True, False

    def _start(self, status: str, headers: list[tuple[str, str]], _error: Any = None) -> Callable[[bytes], object]:
        self.status = int(status[:3])
        self.headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        return io.BytesIO().write

    def start(self) -> Message:
        """Return the ASGI message that starts the response."""
        return {"type": "http.response.start", "status": self.status, "headers": self.headers}

    async def live(self) -> AsyncGenerator[Message, None]:
        """Return the ASGI messages of an asynchronous body, the start with its first part."""
        begun = False
        async with aclosing(aiter(self.body)) as parts:
            async for part in parts:
                if not begun:
                    begun = True
                    yield self.start()
                yield {"type": "http.response.body", "body": part, "more_body": True}
        yield {"type": "http.response.body"}

    def read(self) -> None:
        """Read the next part of the body, up to some size, and close the body after its end."""
        parts, size = [], 0
        for part in self._parts:
            parts.append(part)
            size += len(part)
            if size >= PART_BYTES:
                break
        else:
            self.over = True
            self.close()
        self.part = b"".join(parts)

    def close(self) -> None:
        """Close the body."""
        getattr(self.body, "close", lambda: None)()
