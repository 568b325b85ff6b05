"""A collector: it receives spans at /v1/traces and log lines at /v1/logs, as protobuf over HTTP."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class Receiver:
    """The received spans, services and log lines."""

    spans: list[Any] = field(default_factory=list)
    services: set[str] = field(default_factory=set)
    lines: list[Any] = field(default_factory=list)
    loggers: set[str] = field(default_factory=set)

    def take(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            attributes = {attribute.key: attribute.value.string_value for attribute in resource.resource.attributes}
            self.services.add(attributes["service.name"])
            self.spans += [span for scope in resource.scope_spans for span in scope.spans]

    def take_lines(self, body: bytes) -> None:
        for resource in ExportLogsServiceRequest.FromString(body).resource_logs:
            self.services |= {
                value.value.string_value for value in resource.resource.attributes if value.key == "service.name"
            }
            for scope in resource.scope_logs:
                self.loggers.add(scope.scope.name)
                self.lines += scope.log_records

    def lines_of(self, job_id: str) -> list[tuple[str, str, str]]:
        """The severity, text and trace of a job's lines."""
        return [
            (line.severity_text, line.body.string_value, line.trace_id.hex())
            for line in self.lines
            if attributes(line).get("job_id") == job_id
        ]

    def names(self, job_id: str) -> list[str]:
        """The names of a job's spans, in the order in which they began."""
        return [span.name for span in sorted(self.of(job_id), key=lambda span: span.start_time_unix_nano)]

    def of(self, job_id: str) -> list[Any]:
        return [span for span in self.spans if attributes(span).get("turno.job") == job_id]

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]


def attributes(span: Any) -> dict[str, str]:
    return {attribute.key: attribute.value.string_value for attribute in span.attributes}


@contextmanager
def receiver() -> Iterator[tuple[str, Receiver]]:
    received = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/v1/traces":
                received.take(body)
            elif self.path == "/v1/logs":
                received.take_lines(body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", received
        server.shutdown()
