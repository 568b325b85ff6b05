"""Real servers that alerts are delivered to: one of SMTP, one of HTTP."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

if TYPE_CHECKING:
    from collections.abc import Iterator
    from email.message import EmailMessage
    from pathlib import Path

    from aiosmtpd.smtp import SMTP, Envelope, Session


@dataclass
class Hook:
    """An HTTP server; it answers `status`, and no answer until `silent` is set."""

    url: str = ""
    status: int = 200
    silent: threading.Event = field(default_factory=threading.Event)
    tries: int = 0
    taken: list[dict[str, Any]] = field(default_factory=list)


@contextmanager
def hook() -> Iterator[Hook]:
    receiver = Hook()
    receiver.silent.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            receiver.tries += 1
            receiver.silent.wait(30)
            if receiver.status < 300:
                receiver.taken.append(body)
            self.send_response(receiver.status)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.url = f"http://127.0.0.1:{server.server_port}/alerts?key=secret"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield receiver
    finally:
        receiver.silent.set()
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class MailServer:
    """An SMTP server, and the mails that it took."""

    url: str = ""
    mails: list[EmailMessage] = field(default_factory=list)
    logins: list[tuple[str, bool]] = field(default_factory=list)  # per recipient, with the correctness of the password

    # The refusal of a recipient, such as "550 no such user".
    refuses: str = ""

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        if self.refuses:
            return self.refuses
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802 - aiosmtpd's
        content = envelope.content
        assert isinstance(content, bytes)
        self.mails.append(message_from_bytes(content, policy=policy.default))
        return "250 OK"


@contextmanager
def mail_server(
    scheme: str = "smtp", certificate: Path | None = None, password: str | None = None
) -> Iterator[MailServer]:
    """With a certificate it speaks TLS, from the start or after STARTTLS; with a password `eva` has to log in."""
    receiver = MailServer()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    login = "" if password is None else f"eva:{quote(password, safe='')}@"
    options: dict[str, Any] = {}
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, certificate.with_suffix(".key"))
        options = {"ssl_context": context} if scheme == "smtps" else {"tls_context": context, "require_starttls": True}
    if password is not None:

        def check(_server: SMTP, _session: Session, _envelope: Envelope, _mechanism: str, given: Any) -> AuthResult:
            right = (given.login, given.password) == (b"eva", password.encode())
            receiver.logins.append((given.login.decode(), right))
            return AuthResult(success=right, handled=right)

        options |= {"authenticator": check, "auth_required": True, "auth_require_tls": scheme == "smtp+starttls"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that a login without STARTTLS is careless
        controller = Controller(receiver, hostname="127.0.0.1", port=port, **options)
        controller.start()
        try:
            receiver.url = f"{scheme}://{login}127.0.0.1:{port}"
            yield receiver
        finally:
            controller.stop()
