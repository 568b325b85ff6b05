"""Choose whether this process exports spans and log lines, by the variables of OpenTelemetry."""

import logging
import os
from importlib import import_module
from typing import Any

from turno.tracing import Tracer

log = logging.getLogger(__name__)


def exporter() -> Tracer:
    """Return the tracer that exports spans; one without spans if the environment names no endpoint for them."""
    exported: Tracer | None = _exporting("TRACES", "spans", "ExportingTracer")
    return exported or Tracer()


def lines() -> logging.Handler | None:
    """Return the handler that exports log lines; None if the environment names no endpoint for them."""
    handler: logging.Handler | None = _exporting("LOGS", "lines", "ExportedLines")
    return handler


def _exporting(kind: str, module: str, name: str) -> Any:
    """Return an object of this class if the environment names an endpoint for this kind of data."""
    endpoints = (f"OTEL_EXPORTER_OTLP_{kind}_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if disabled or os.environ.get(f"OTEL_{kind}_EXPORTER") == "none" or not any(map(os.environ.get, endpoints)):
        return None
    try:
        # Needs an optional package.
        return getattr(import_module(f"turno.capabilities.tracing.{module}"), name)()
    except ImportError as error:
        log.warning("no %s are exported: %s; install turno-jobs[opentelemetry]", kind.lower(), error)
        return None
