"""Choose whether this process exports spans, by the variables of OpenTelemetry."""

import logging
import os

from turno.tracing import Tracer

log = logging.getLogger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def exporter() -> Tracer:
    """Return the tracer that exports spans; one without spans if the environment names no endpoint."""
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if disabled or not any(os.environ.get(name) for name in ENDPOINTS):
        return Tracer()
    try:
        from turno.capabilities.tracing.spans import ExportingTracer  # noqa: PLC0415 - needs an optional package
    except ImportError as error:
        log.warning("no traces are exported: %s; install turno-jobs[opentelemetry]", error)
        return Tracer()
    return ExportingTracer()
