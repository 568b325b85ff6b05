"""Spans of jobs for OpenTelemetry: exported by the web and by workers' children where an endpoint is named.

A job's spans belong to the trace that its `traceparent` names: job.dispatch of the request, job.execute of each
attempt, and in that how it ended: job.complete, job.retry, job.fail, or job. with another status. Nothing of
OpenTelemetry is imported unless the environment names an endpoint, by the variables that OpenTelemetry itself defines.
"""

from __future__ import annotations

import logging
import os
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from time import time_ns
from typing import TYPE_CHECKING

from turno.traces import continued

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer

log = logging.getLogger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
FLUSH_SECONDS = 2.0  # that a process which ends waits for its last spans to be taken
SPANS = {"completed": "job.complete", "failed": "job.fail", "pending": "job.retry"}


class AttemptSpans:
    """The spans of one attempt: job.execute from its start, and how the attempt ended, until that was committed."""

    def __init__(self, tracer: Tracer, traceparent: str | None, attributes: Mapping[str, str | int]) -> None:
        from opentelemetry.trace import SpanKind  # noqa: PLC0415 - only where spans are exported

        self._tracer = tracer
        self._attributes = attributes
        self._span = tracer.start_span(
            "job.execute", _parent(traceparent), kind=SpanKind.CONSUMER, attributes=attributes
        )
        self._returned = time_ns()

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make spans that the handler begins in the block a part of job.execute."""
        from opentelemetry.trace import use_span  # noqa: PLC0415

        try:
            with use_span(self._span, record_exception=False, set_status_on_exception=False):
                yield
        finally:
            self._returned = time_ns()

    def end(self, status: str) -> None:
        """End them: the attempt's record is committed, or its claim was lost."""
        from opentelemetry.trace import StatusCode, set_span_in_context  # noqa: PLC0415

        if not self._span.is_recording():
            return  # not sampled
        self._tracer.start_span(
            SPANS.get(status, f"job.{status}"),
            set_span_in_context(self._span),
            start_time=self._returned,
            attributes={**self._attributes, "turno.status": status},
        ).end()
        if status == "failed":
            self._span.set_status(StatusCode.ERROR)
        self._span.end()


def attempt(traceparent: str | None, attributes: Callable[[], Mapping[str, str | int]]) -> AttemptSpans | None:
    """Return the spans of a new attempt, or None without an exporter."""
    tracer = _tracer()
    return None if tracer is None else AttemptSpans(tracer, traceparent, attributes())


def within(spans: AttemptSpans | None) -> AbstractContextManager[None]:
    """Return the block in which an attempt's handler is called."""
    return nullcontext() if spans is None else spans.current()


@contextmanager
def dispatch(traceparent: str | None, attributes: Mapping[str, str | int]) -> Iterator[str]:
    """Give the traceparent that a job keeps which is submitted in the block."""
    tracer = _tracer()
    if tracer is None:
        yield continued(traceparent)
        return
    from opentelemetry.trace import SpanKind, set_span_in_context  # noqa: PLC0415
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    span = tracer.start_span("job.dispatch", _parent(traceparent), kind=SpanKind.PRODUCER, attributes=dict(attributes))
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier, set_span_in_context(span))
    try:
        yield continued(carrier.get("traceparent"))
    finally:
        span.end()


def flush() -> None:
    """Export the remaining spans: a process that ends by os._exit would lose them."""
    if _provider.cache_info().currsize and (provider := _provider()) is not None:
        provider.force_flush(int(1000 * FLUSH_SECONDS))


def _parent(traceparent: str | None) -> Context:
    from opentelemetry.context import Context  # noqa: PLC0415
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    carrier = {} if traceparent is None else {"traceparent": traceparent}
    return TraceContextTextMapPropagator().extract(carrier, Context())


@cache
def _tracer() -> Tracer | None:
    """Return the tracer of this process; the look-up takes an eighth of the time of two spans."""
    provider = _provider()
    return None if provider is None else provider.get_tracer("turno")


@cache
def _provider() -> TracerProvider | None:
    """Return the exporter of this process; the first call comes after its last fork."""
    if not any(os.environ.get(name) for name in ENDPOINTS) or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        from opentelemetry.trace import set_tracer_provider  # noqa: PLC0415
    except ImportError as error:
        log.warning("no traces are exported: %s; install turno-jobs[opentelemetry]", error)
        return None
    os.environ.setdefault("OTEL_SERVICE_NAME", "turno")
    provider = TracerProvider(resource=Resource.create())
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    set_tracer_provider(provider)
    return provider
