"""The trace of a request continues in the job and in each attempt; an OTLP receiver gets all spans."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pytest

from cli.demo.web import DemoWeb
from cli.servers.free_port import free_port
from tests.capabilities.tracing.receiver import Receiver, receiver
from tests.installation import ExampleInstallation
from turno.testing.wait import wait_until

pytestmark = pytest.mark.deep

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@dataclass
class Traced:
    """A web that launches workers, all of which export to the receiver."""

    example: ExampleInstallation
    web: DemoWeb
    received: Receiver
    log: Path

    def submit(self, **payload: bool) -> str:
        headers = {"traceparent": f"00-{TRACE}-{CALLER}-01", "X-Correlation-Id": "order-42"}
        client = self.example.client(self.web)
        return str(client.request("POST", "/api/jobs/traced", {"payload": payload}, headers)["job_id"])

    def wait(self, condition: Callable[[], bool]) -> None:
        assert wait_until(condition, within=60), (self.received.spans, self.log.read_text())


@pytest.fixture(scope="module")
def traced(module_example: ExampleInstallation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    log = tmp_path_factory.mktemp("traces") / "web.log"
    example, port = module_example, free_port()
    example.registry = "tests.capabilities.tracing.traced_handlers:HANDLERS"
    with receiver() as (url, received):
        example.extra |= {
            "OTEL_EXPORTER_OTLP_ENDPOINT": url,
            "OTEL_BSP_SCHEDULE_DELAY": "200",
            "OTEL_BLRP_SCHEDULE_DELAY": "200",
            "TURNO_LOG_LEVEL": "INFO",
        }
        example.extra |= {"TURNO_WEB_BIND": f"127.0.0.1:{port}"}
        web = DemoWeb(port=port, environment=example.environment, log=log)
        web.start()
        yield Traced(example, web, received, example.settings.slot_dir / "workers.log")
        web.stop()


def test_a_request_its_job_and_each_attempt_are_one_trace(traced: Traced) -> None:
    job_id = traced.submit()
    traced.wait(lambda: "job.complete" in traced.received.names(job_id))
    traced.wait(lambda: traced.received.named("job.dispatch") != [])
    spans = traced.received.of(job_id)
    assert traced.received.names(job_id) == ["job.execute", "job.retry", "job.execute", "job.complete"]
    # An exporter that had no answer in time sends a span again.
    (dispatch,) = {span.span_id: span for span in traced.received.named("job.dispatch")}.values()
    assert {span.trace_id.hex() for span in [dispatch, *spans]} == {TRACE}
    assert dispatch.parent_span_id.hex() == CALLER
    executed = [span for span in spans if span.name == "job.execute"]
    assert {span.parent_span_id for span in executed} == {dispatch.span_id}
    (completed,) = (span for span in spans if span.name == "job.complete")
    assert completed.parent_span_id in {span.span_id for span in executed}
    assert traced.received.services == {"turno"}


def test_a_job_that_failed_is_an_error_of_the_trace(traced: Traced) -> None:
    job_id = traced.submit(fails=True)
    traced.wait(lambda: "job.fail" in traced.received.names(job_id))
    traced.wait(lambda: len(traced.received.of(job_id)) == 4)
    assert traced.received.names(job_id) == ["job.execute", "job.retry", "job.execute", "job.fail"]
    statuses = [span.status.code for span in traced.received.of(job_id) if span.name == "job.execute"]
    assert sorted(statuses) == [0, 2]  # unset, and error


def test_log_line_names_request_and_trace(traced: Traced) -> None:
    job_id = traced.submit(fails=True)
    traced.wait(lambda: traced.example.job(UUID(job_id))["status"] == "failed")
    traced.wait(lambda: "job.fail" in traced.received.names(job_id))
    lines = [json.loads(line) for line in traced.log.read_text().splitlines() if job_id in line and line[0] == "{"]
    of_attempts = [line for line in lines if "attempt" in line]
    messages = {"here", "attempt ended: pending", "attempt ended: failed", "job failed, no attempts left: ValueError"}
    assert messages <= {line["message"] for line in of_attempts}, of_attempts
    assert {(line["correlation_id"], line["trace_id"], line["tenant"]) for line in of_attempts} == {
        ("order-42", TRACE, "suc0001")
    }


def test_log_lines_of_jobs_are_exported_in_their_trace(traced: Traced) -> None:
    job_id = traced.submit()
    wanted = {
        ("WARNING", "here", TRACE),
        ("WARNING", "attempt failed, tried again in 0 s: ValueError", TRACE),
        ("INFO", "attempt ended: completed", TRACE),
    }
    traced.wait(lambda: wanted <= set(traced.received.lines_of(job_id)))
