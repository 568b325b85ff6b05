"""The log lines of each process reach a collector."""

import os
import subprocess
import sys

from tests.capabilities.tracing.receiver import receiver

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PROGRAM = f"""
import logging, os
from turno.logs import log_to_stderr
log_to_stderr("INFO", ["tax_id"])
about = {{"job_id": "7", "trace_id": "{TRACE}", "seconds": 0.5}}
logging.getLogger("turno.parent").warning("password=secret tax_id=20123", extra=about)
logging.getLogger("urllib3").warning("own")
if child := os.fork():
    os.waitpid(child, 0)
else:
    logging.getLogger("turno.child").info("of the child", extra=about)
    logging.shutdown()
    os._exit(0)
"""


def test_lines_of_each_process_reach_a_collector() -> None:
    with receiver() as (url, received):
        environment = os.environ | {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_SERVICE_NAME": "shop"}
        subprocess.run([sys.executable, "-c", PROGRAM], check=True, env=environment, timeout=60)
    assert received.loggers == {"turno.parent", "turno.child"}
    assert received.services == {"shop"}
    texts = sorted(received.lines_of("7"))
    assert [(severity, trace) for severity, _, trace in texts] == [("INFO", TRACE), ("WARNING", TRACE)]
    assert texts[0][1] == "of the child"
    assert "secret" not in texts[1][1]
    assert "20123" not in texts[1][1]
    (seconds,) = (value.value.double_value for value in received.lines[0].attributes if value.key == "seconds")
    assert seconds == 0.5
    assert "own" not in {line.body.string_value for line in received.lines}


def test_lines_are_not_exported_if_they_are_switched_off() -> None:
    with receiver() as (url, received):
        environment = os.environ | {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_LOGS_EXPORTER": "none"}
        subprocess.run([sys.executable, "-c", PROGRAM], check=True, env=environment, timeout=60)
    assert received.lines == []
