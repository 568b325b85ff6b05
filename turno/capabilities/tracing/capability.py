"""Tracing: spans of jobs, exported by OpenTelemetry. This declaration is all that the core reads."""

from turno.capability import Capability

CAPABILITY = Capability(name="tracing", tracer="turno.capabilities.tracing.exporter:exporter")
