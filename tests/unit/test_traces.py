"""Which trace a job belongs to."""

import subprocess
import sys

import pytest

from turno.traces import continued, trace_id

GIVEN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_a_caller_s_trace_goes_on() -> None:
    assert continued(GIVEN) == GIVEN
    assert trace_id(GIVEN) == "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize("given", [None, "", "nonsense", GIVEN.upper(), GIVEN.replace("4bf9", "0x00"), GIVEN + "\n"])
def test_without_a_valid_one_a_trace_begins(given: str | None) -> None:
    first, second = continued(given), continued(given)
    assert trace_id(given) is None
    assert None not in {trace_id(first), trace_id(second)}
    assert trace_id(first) != trace_id(second)


def test_without_an_endpoint_nothing_of_opentelemetry_is_imported() -> None:
    program = (
        "import sys; from turno import tracing; assert tracing.attempt(None, dict) is None; tracing.flush()\n"
        "with tracing.dispatch(None, {}) as trace: assert trace\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={}, timeout=30)


def test_without_the_package_a_line_says_what_to_install() -> None:
    program = (
        "import sys, logging; logging.basicConfig(); sys.modules['opentelemetry.sdk'] = None\n"
        "from turno import tracing; assert tracing.attempt(None, dict) is None"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        env={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
        stderr=subprocess.PIPE,
        text=True,
        timeout=30,
    )
    assert "install turno-jobs[opentelemetry]" in done.stderr
