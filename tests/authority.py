"""A tax authority on loopback that answers, answers late, twice or never, or grants and drops the reply."""

from __future__ import annotations

import json
import random
import select
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

# late: it grants when the client has given up.  drop: it grants and hangs up.  never: it neither grants nor answers.
# garbage: it grants and answers nonsense.  twice: it answers twice.  broken: it does nothing and answers 500.
MOODS = ("grant", "late", "drop", "never", "garbage", "twice", "broken", "refuse")
LONGEST_HOLD = 60.0


@dataclass
class Authority:
    """The number of grants by request id; each request meets a random mood."""

    url: str = ""
    moods: tuple[str, ...] = ("grant",)
    chance: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311
    grants: Counter[str] = field(default_factory=Counter)
    requested: Counter[str] = field(default_factory=Counter)
    in_flight: int = 0
    _lock: Lock = field(default_factory=Lock)

    def mood(self) -> str:
        with self._lock:
            mood = self.chance.choice(self.moods)
            self.requested[mood] += 1
            return mood

    def grant(self, request_id: str) -> dict[str, Any]:
        """Grant each request, a repeated request once more."""
        with self._lock:
            self.grants[request_id] += 1
            return {"code": f"CAE-{request_id}-{self.grants[request_id]}"}

    def grant_of(self, request_id: str) -> dict[str, Any] | None:
        with self._lock:
            return {"code": f"CAE-{request_id}-1"} if self.grants[request_id] else None

    def under_way(self, change: int) -> None:
        with self._lock:
            self.in_flight += change

    @property
    def doubled(self) -> list[str]:
        """Requests with several grants: each is a duplicate invoice."""
        return [request_id for request_id, times in self.grants.items() if times > 1]


class _Requests(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    authority: Authority

    def do_GET(self) -> None:
        result = self.authority.grant_of(self.path.rpartition("/")[2])
        self._say(200, result) if result else self._say(404, {})

    def do_POST(self) -> None:
        self.authority.under_way(1)
        try:
            self._authorise()
        finally:
            self.authority.under_way(-1)

    def _authorise(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        request_id = self.path.rpartition("/")[2]
        match self.authority.mood():
            case "grant":
                self._say(200, self.authority.grant(request_id))
            case "twice":
                answer = self.authority.grant(request_id)
                self._say(200, answer)
                self._say(200, answer)
            case "late":
                self._wait_until_given_up()
                self.authority.grant(request_id)
            case "drop":
                self.authority.grant(request_id)
                self.close_connection = True
            case "never":
                self._wait_until_given_up()
            case "garbage":
                self.authority.grant(request_id)
                self._send(200, b"{")
            case "broken":
                self._say(500, {})
            case "refuse":
                self._say(422, {})

    def _say(self, status: int, body: dict[str, Any]) -> None:
        self._send(status, json.dumps(body).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _wait_until_given_up(self) -> None:
        # A client that hangs up makes its end readable.
        select.select([self.connection], [], [], LONGEST_HOLD)
        self.close_connection = True

    def log_message(self, *_arguments: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    request_queue_size = 64

    def handle_error(self, *_arguments: Any) -> None:
        """Ignore a client that disconnects in the middle."""


@contextmanager
def tax_authority(authority: Authority | None = None) -> Iterator[Authority]:
    """Serve an authority until the block ends."""
    authority = authority or Authority()
    requests = type("Requests", (_Requests,), {"authority": authority})
    with _Server(("127.0.0.1", 0), requests) as server:
        authority.url = f"http://127.0.0.1:{server.server_port}"
        serving = Thread(target=server.serve_forever, args=(0.05,))
        serving.start()
        try:
            yield authority
        finally:
            server.shutdown()
            serving.join()
