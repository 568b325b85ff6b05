"""The stub over HTTP: three SOAP services, a control address, and a page that describes it."""

from __future__ import annotations

import json
import select
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

from tax_authority.stub import control
from tax_authority.stub.messages import NotRead, Question, Reply, fault
from tax_authority.stub.stub import PATHS, TaxAuthorityStub

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGEST_REQUEST = 1_000_000
LONGEST_WAIT_SECONDS = 60.0
DRIP_SECONDS = 0.05
SERVICES = {path: service for service, path in PATHS.items()}
LOOPBACK_HOSTS = ("127.0.0.1", "localhost")


class StubServer(ThreadingHTTPServer):
    """Listens on loopback alone: any local process may call every operation."""

    request_queue_size = 64
    daemon_threads = True
    block_on_close = False

    def __init__(self, stub: TaxAuthorityStub, port: int) -> None:
        """Listen on the port, or on a free one for 0."""
        self.stub = stub
        super().__init__(("127.0.0.1", port), _Requests)

    def handle_error(self, *_client: Any) -> None:
        """Say nothing of a client that gave up."""


class _Requests(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: StubServer

    def do_GET(self) -> None:
        """Show the page, or the state of the control address."""
        if self.path == "/":
            self._send(Reply(200, control.page(self.server.stub).encode(), "text/plain; charset=utf-8"))
        elif self.path == "/control" and self._is_local():
            self._send_json(200, control.state(self.server.stub))
        else:
            self._send(Reply(404, b"no such page", "text/plain"))

    def do_POST(self) -> None:
        """Answer a service's operation, or take an order."""
        length = int(self.headers.get("Content-Length") or 0)
        if length > LARGEST_REQUEST:
            self.close_connection = True
            self._send(Reply(413, b"", "text/plain"))
            return
        body = self.rfile.read(length)
        service = SERVICES.get(self.path)
        if service is not None:
            with self.server.stub.request():
                self._serve(service, body)
        elif self.path.startswith("/control/") and self._is_local():
            self._send_json(*control.order(self.server.stub, self.path.removeprefix("/control/"), body))
        else:
            self._send(Reply(404, b"no such service", "text/plain"))

    def _serve(self, service: str, body: bytes) -> None:
        stub = self.server.stub
        try:
            question = Question.read(body)
        except NotRead as error:
            self._send(fault("soap:Client", str(error)))
            return
        happens = stub.faults.next(question.name)
        match happens:
            case "late" | "never":
                self._wait_until_given_up()
                if happens == "late":
                    stub.answer(service, question, "answer")
            case "busy":
                self._send(Reply(429, b"", "text/plain"))
            case "unavailable":
                self._send(Reply(503, b"<html>Service Unavailable</html>", "text/html"))
            case "redirect":
                self._send(Reply(302, b"", "text/plain"), Location=self.path)
            case "drop":
                stub.answer(service, question, "answer")
                self.close_connection = True
            case "truncated":
                self._send_half(stub.answer(service, question, "answer"))
            case "drip":
                self._send_slowly(stub.answer(service, question, "answer"))
            case _:
                self._send(stub.answer(service, question, happens))

    def _send(self, reply: Reply, **headers: str) -> None:
        self._begin(reply, **headers)
        self.wfile.write(reply.body)

    def _begin(self, reply: Reply, **headers: str) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _send_json(self, status: int, content: dict[str, Any]) -> None:
        self._send(Reply(status, json.dumps(content).encode(), "application/json"))

    def _send_half(self, reply: Reply) -> None:
        self._begin(reply)
        self.wfile.write(reply.body[: len(reply.body) // 2])
        self.close_connection = True

    def _send_slowly(self, reply: Reply) -> None:
        self._begin(reply)
        for byte in reply.body:
            self.wfile.write(bytes([byte]))
            self.wfile.flush()
            time.sleep(DRIP_SECONDS)

    def _wait_until_given_up(self) -> None:
        # A client that hangs up makes its end readable.
        select.select([self.connection], [], [], LONGEST_WAIT_SECONDS)
        self.close_connection = True

    def _is_local(self) -> bool:
        """Refuse requests from a page in a browser: orders need a type that it may not send, and this host's name."""
        host = (self.headers.get("Host") or "").rpartition(":")[0]
        typed = self.command == "GET" or self.headers.get_content_type() == "application/json"
        return host in LOOPBACK_HOSTS and typed

    def log_message(self, *_arguments: Any) -> None:
        """Print nothing: the page lists the granted vouchers."""


@contextmanager
def serving(stub: TaxAuthorityStub | None = None, port: int = 0) -> Iterator[TaxAuthorityStub]:
    """Serve a stub on loopback until the block ends; a port is chosen where none is named."""
    stub = stub or TaxAuthorityStub()
    with StubServer(stub, port) as server:
        stub.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield stub
        finally:
            server.shutdown()
            thread.join()
