"""Guards of tracing."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "a process without an endpoint imports OpenTelemetry",
        "section 11: a small core; a capability costs nothing where it is not used",
        "turno/capabilities/tracing/exporter.py",
        "if disabled or not any(os.environ.get(name) for name in ENDPOINTS):",
        "if disabled:",
        ("tests/capabilities/tracing/test_exporter.py::test_without_an_endpoint_opentelemetry_is_not_imported",),
    ),
)
