"""The choice of the exporter by the environment."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("environment", [{}, {"OTEL_SERVICE_NAME": "shop"}])
def test_without_an_endpoint_opentelemetry_is_not_imported(environment: dict[str, str]) -> None:
    program = (
        "import sys; from turno import tracing; tracing.tracer().attempt(None, {}).end('completed'); tracing.flush()\n"
        "with tracing.tracer().dispatch(None, {}) as trace: assert trace\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, timeout=30)


def test_a_missing_package_is_named_in_a_warning() -> None:
    program = (
        "import sys, logging; logging.basicConfig(); sys.modules['opentelemetry.sdk'] = None\n"
        "from turno import tracing; assert type(tracing.tracer()) is tracing.Tracer"
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
