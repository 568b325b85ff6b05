"""deploy/nginx/turno.conf as nginx runs it: requests are held until they are whole, streams are passed on at once."""

from __future__ import annotations

import socket
import ssl
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest

from cli.servers.free_port import free_port
from tests.installation import ROOT
from tests.tls import make_authority, make_certificate
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.deep

SECOND_EVENT = b"data: second\n\n"


@dataclass
class Web:
    """A fake of `turno serve`: records its requests, and sends a stream's second event on request."""

    port: int = 0
    seen: list[tuple[str, str, str, int]] = field(default_factory=list)
    go_on: Event = field(default_factory=Event)

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.seen.append((request.path, request.headers["X-Forwarded-Proto"], request.headers["Host"], 0))
        length = int(request.headers.get("Content-Length") or 0)
        body = request.rfile.read(length)
        self.seen[-1] = (*self.seen[-1][:3], len(body))
        request.send_response(200)
        if "stream" not in request.path:
            request.send_header("Content-Length", "2")
            request.end_headers()
            request.wfile.write(b"ok")
            return
        request.send_header("Content-Type", "text/event-stream")
        request.end_headers()
        request.wfile.write(b"data: first\n\n")
        self.go_on.wait(30)
        request.wfile.write(SECOND_EVENT)


@contextmanager
def web() -> Iterator[Web]:
    upstream = Web()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            upstream.answer(self)

        def do_POST(self) -> None:
            upstream.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    upstream.port = server.server_address[1]
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield upstream
    finally:
        upstream.go_on.set()
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def nginx_before(program: Path, upstream: int, folder: Path) -> Iterator[int]:
    """Run nginx with the configuration as it stands, but for its ports and places; give its port."""
    port = free_port()
    certificate = make_certificate(make_authority(folder, "authority"), "turno.example", address="127.0.0.1")
    text = (ROOT / "deploy" / "nginx" / "turno.conf").read_text(encoding="utf-8")
    replacements = {
        "listen 443 ssl;": f"listen 127.0.0.1:{port} ssl;",
        "server 127.0.0.1:8000;": f"server 127.0.0.1:{upstream};",
        "/etc/ssl/turno.example.pem": str(certificate),
        "/etc/ssl/private/turno.example.key": str(certificate.with_suffix(".key")),
        "/var/log/nginx/turno.log": str(folder / "turno.log"),
    }
    for there, local in replacements.items():
        assert text.count(there) == 1, there
        text = text.replace(there, local)
    (folder / "turno.conf").write_text(text, encoding="utf-8")
    temp_paths = "".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log stderr; events {{}}"
        f" http {{ {temp_paths} include {folder}/turno.conf; }}",
        encoding="utf-8",
    )
    process = subprocess.Popen([program, "-p", folder, "-c", folder / "nginx.conf"], stderr=subprocess.PIPE, text=True)

    def listens() -> bool:
        with socket.socket() as probe:
            return process.poll() is not None or probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        assert wait_until(listens, within=10)
        assert process.poll() is None, process.communicate()[1]
        yield port
    finally:
        process.terminate()
        process.communicate()


def dial(port: int) -> ssl.SSLSocket:
    """Open a connection as a browser would, which here believes any certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=60))


def test_requests_are_held_and_streams_are_not(nginx: Path, tmp_path: Path) -> None:
    with web() as upstream, nginx_before(nginx, upstream.port, tmp_path) as port:
        with dial(port) as client:
            client.sendall(b"POST /api/jobs/a?x=1 HTTP/1.1\r\nHost: turno.example\r\nContent-Length: 6\r\n")
            client.sendall(b"X-Forwarded-Proto: http\r\n\r\nabc")
            with dial(port) as other:
                other.sendall(b"GET /healthz HTTP/1.1\r\nHost: turno.example\r\nConnection: close\r\n\r\n")
                assert other.recv(4096).startswith(b"HTTP/1.1 200")
            # The half request has not reached the web, which meanwhile answered a different one.
            assert upstream.seen == [("/healthz", "https", "turno.example", 0)]
            client.sendall(b"def")
            assert client.recv(4096).startswith(b"HTTP/1.1 200")
        assert upstream.seen[1:] == [("/api/jobs/a?x=1", "https", "turno.example", 6)]
        for path in ("/api/stream?ticket=secret", "/api/jobs/0/stream?ticket=secret"):
            upstream.go_on.clear()
            with dial(port) as client:
                client.sendall(f"GET {path} HTTP/1.1\r\nHost: turno.example\r\nConnection: close\r\n\r\n".encode())
                got = b""
                while b"first" not in got:
                    got += client.recv(4096)
                assert SECOND_EVENT not in got
                upstream.go_on.set()
                while chunk := client.recv(4096):
                    got += chunk
                assert SECOND_EVENT in got
    log = (tmp_path / "turno.log").read_text(encoding="utf-8")
    assert "/api/stream 200" in log
    assert "secret" not in log
