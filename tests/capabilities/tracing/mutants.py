"""Guards of tracing."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "a process without an endpoint imports OpenTelemetry",
        "section 11: a small core; a capability costs nothing where it is not used",
        "turno/capabilities/tracing/exporter.py",
        "or not any(map(os.environ.get, endpoints)):",
        ":",
        ("tests/capabilities/tracing/test_exporter.py::test_without_an_endpoint_opentelemetry_is_not_imported",),
    ),
    Mutant(
        "a forked process exports its lines by the thread of its parent",
        "log lines of each process are exported",
        "turno/capabilities/tracing/lines.py",
        "if self._provider is None or self._process != os.getpid():",
        "if self._provider is None:",
        ("tests/capabilities/tracing/test_lines.py::test_lines_of_each_process_reach_a_collector",),
    ),
)
