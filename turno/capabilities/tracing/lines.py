"""The log lines of a process, exported by OpenTelemetry, redacted as in the log."""

import logging
import os
from time import time_ns

from opentelemetry._logs import Logger, LogRecord, SeverityNumber
from opentelemetry.context import Context, get_current
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    get_current_span,
    set_span_in_context,
)

from turno.capabilities.tracing.spans import FLUSH_SECONDS, resource
from turno.logs import line_of

SEVERITIES = {
    "DEBUG": SeverityNumber.DEBUG,
    "INFO": SeverityNumber.INFO,
    "WARNING": SeverityNumber.WARN,
    "ERROR": SeverityNumber.ERROR,
    "CRITICAL": SeverityNumber.FATAL,
}
# An error of the export would cause the next export.
OWN = ("opentelemetry", "urllib3", "requests")


class ExportedLines(logging.Handler):
    """Sends each line to the endpoint; a forked process has its own thread and connection from its first line on."""

    def __init__(self) -> None:
        super().__init__()
        self._process = 0
        self._provider: LoggerProvider | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Export one line, in the trace of its job."""
        if record.name.startswith(OWN):
            return
        try:
            self._logger(record.name).emit(_exported(record))
        except Exception:  # noqa: BLE001 - as every handler of logging does: a line must not fail its caller
            self.handleError(record)

    def flush(self) -> None:
        """Export the remaining lines of this process."""
        if self._provider is not None and self._process == os.getpid():
            self._provider.force_flush(int(1000 * FLUSH_SECONDS))

    def _logger(self, name: str) -> Logger:
        if self._provider is None or self._process != os.getpid():
            self._process = os.getpid()
            self._provider = LoggerProvider(resource=resource())
            self._provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
        return self._provider.get_logger(name)


def _exported(record: logging.LogRecord) -> LogRecord:
    line = line_of(record)
    body, level = str(line.pop("message")), str(line.pop("level"))
    return LogRecord(
        timestamp=int(record.created * 1e9),
        observed_timestamp=time_ns(),
        context=_context(str(line.get("trace_id") or "")),
        severity_text=level,
        severity_number=SEVERITIES.get(level, SeverityNumber.INFO),
        body=body,
        attributes={name: value for name, value in line.items() if name not in ("at", "logger") and value is not None},
    )


def _context(trace: str) -> Context:
    """Return the context of the present span; without a span, that of the trace in the fields of the line."""
    if get_current_span().get_span_context().is_valid or not trace:
        return get_current()
    span = SpanContext(int(trace, 16), 0, is_remote=True, trace_flags=TraceFlags())
    return set_span_in_context(NonRecordingSpan(span))
