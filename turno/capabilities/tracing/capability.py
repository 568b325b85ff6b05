"""Tracing: spans and log lines of jobs, exported by OpenTelemetry. This declaration is all that the core reads."""

from turno.capability import Capability

_EXPORTER = "turno.capabilities.tracing.exporter"
CAPABILITY = Capability(name="tracing", tracer=f"{_EXPORTER}:exporter", log_lines=f"{_EXPORTER}:lines")
