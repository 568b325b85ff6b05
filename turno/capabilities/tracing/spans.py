"""Spans of jobs, in the trace that the `traceparent` of the job names.

The web records job.dispatch for each request; a worker records job.execute for each attempt, and within it
job.complete, job.retry, job.fail, or job.STATUS for another end.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from time import time_ns

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context, set_tracer_provider, use_span
from opentelemetry.trace import Tracer as OpenTelemetryTracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from turno.tracing import Attributes, Spans, Tracer, continued

FLUSH_SECONDS = 2.0  # wait of an ending process for the export of its last spans
ENDS = {"completed": "job.complete", "failed": "job.fail", "pending": "job.retry"}
PROPAGATOR = TraceContextTextMapPropagator()


class ExportingTracer(Tracer):
    """Sends the spans of this process to the endpoint that the environment names."""

    def __init__(self) -> None:
        self._provider = TracerProvider(resource=resource())
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        set_tracer_provider(self._provider)
        self._tracer = self._provider.get_tracer("turno")

    @contextmanager
    def dispatch(self, traceparent: str | None, attributes: Attributes) -> Iterator[str]:
        """Record job.dispatch for the block, which submits a job with the traceparent of this span."""
        span = self._tracer.start_span(
            "job.dispatch", _parent(traceparent), kind=SpanKind.PRODUCER, attributes=attributes
        )
        carrier: dict[str, str] = {}
        PROPAGATOR.inject(carrier, set_span_in_context(span))
        try:
            yield continued(carrier.get("traceparent"))
        finally:
            span.end()

    def attempt(self, traceparent: str | None, attributes: Attributes) -> Spans:
        """Begin the spans of an attempt."""
        return AttemptSpans(self._tracer, traceparent, attributes)

    def flush(self) -> None:
        """Export the remaining spans."""
        self._provider.force_flush(int(1000 * FLUSH_SECONDS))


class AttemptSpans(Spans):
    """The span job.execute of an attempt, and the span of its end, which lasts until the record is committed."""

    def __init__(self, tracer: OpenTelemetryTracer, traceparent: str | None, attributes: Attributes) -> None:
        self._tracer = tracer
        self._attributes = attributes
        self._span = tracer.start_span(
            "job.execute", _parent(traceparent), kind=SpanKind.CONSUMER, attributes=attributes
        )
        self._returned = time_ns()

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make spans that the handler begins in the block children of job.execute."""
        try:
            with use_span(self._span, record_exception=False, set_status_on_exception=False):
                yield
        finally:
            self._returned = time_ns()

    def end(self, status: str) -> None:
        """End both spans."""
        if not self._span.is_recording():
            return  # not sampled
        self._tracer.start_span(
            ENDS.get(status, f"job.{status}"),
            set_span_in_context(self._span),
            start_time=self._returned,
            attributes={**self._attributes, "turno.status": status},
        ).end()
        if status == "failed":
            self._span.set_status(StatusCode.ERROR)
        self._span.end()


def resource() -> Resource:
    """Return the description of this process in exported data."""
    return Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "turno")})


def _parent(traceparent: str | None) -> Context:
    return PROPAGATOR.extract({} if traceparent is None else {"traceparent": traceparent}, Context())
