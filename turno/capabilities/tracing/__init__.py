"""Tracing: spans of jobs, exported by OpenTelemetry."""
