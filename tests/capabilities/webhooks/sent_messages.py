"""The receivers, and jobs that end."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event
from typing import TYPE_CHECKING, Any

from turno.capabilities.webhooks.delivery import make_due
from turno.capabilities.webhooks.submission import PUT
from turno.dispatch.dispatcher import enqueue_with, submission

if TYPE_CHECKING:
    from uuid import UUID

    from tests.installation import ExampleInstallation
    from turno.tenancy.identity.tenant import Tenant


class Receiver(ThreadingHTTPServer):
    """Answers with `status` once `answers` is set, and keeps the deliveries."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Taken)
        self.status, self.headers_sent = 200, dict[str, str]()
        self.answers = Event()
        self.answers.set()
        self.got: list[tuple[str, dict[str, str], bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/told?by=turno"


class Taken(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
        self.server.answers.wait(10)
        self.send_response(self.server.status)
        for name, value in self.server.headers_sent.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


def requested(
    example: ExampleInstallation,
    url: str,
    *,
    payload: dict[str, Any] | None = None,
    tenant: Tenant | None = None,
    language: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    new = example.new_job(payload or {"order_ids": [1]}, **options)
    return example.call(enqueue_with([PUT]), ([url], language, *submission(new)), tenant=tenant)


def ended(example: ExampleInstallation, url: str, *, tenant: Tenant | None = None, language: str | None = None) -> UUID:
    job_id: UUID = requested(example, url, tenant=tenant, language=language)["job_id"]
    example.rows("SELECT job_cancel(%s, NULL, 'the test is over')", job_id, tenant=tenant)
    counted(example)
    return job_id


def counted(example: ExampleInstallation) -> None:
    """Make the deliveries of ended jobs due, as maintenance does."""
    while make_due(example.engine, limit=1000):
        pass


def due_again(example: ExampleInstallation) -> None:
    example.rows("UPDATE turno.webhooks SET due_at = now()")
