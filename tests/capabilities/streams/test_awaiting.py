"""?wait=: a request is answered by its job's end, or by its time's; and while it waits it costs other requests
nothing."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from tests.api import in_an_hour
from tests.capabilities.streams.test_streams import ask, end, headers_of, opens, web_of
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cli.demo.web import DemoWeb
    from tests.api import Service
    from tests.installation import ExampleInstallation

POST = "/api/jobs/batch_invoicing"


@pytest.fixture(scope="module")
def web(module_example: ExampleInstallation) -> Iterator[DemoWeb]:
    with web_of(module_example, TURNO_LIMITS="streams_per_user=2", TURNO_WEB_THREADS="2") as running:
        yield running


@pytest.fixture
def clients() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as made:
        yield made


def body() -> str:
    """A job that no worker takes up while a test looks on."""
    return json.dumps({"payload": {"order_ids": [1]}, "run_at": in_an_hour()})


def only_job(example: ExampleInstallation) -> UUID:
    result: list[dict[str, Any]] = []

    def is_enqueued() -> bool:
        result[:] = example.rows("SELECT id FROM background_jobs")
        return bool(result)

    assert wait_until(is_enqueued, within=10)
    return UUID(str(result[0]["id"]))


def unanswered(web: DemoWeb, path: str, headers: dict[str, str]) -> socket.socket:
    """A request from a client that does not read."""
    client = socket.create_connection(("127.0.0.1", web.port), timeout=20)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode())
    return client


def test_a_job_that_ends_in_time_is_the_answer(
    example: ExampleInstallation, web: DemoWeb, clients: ThreadPoolExecutor
) -> None:
    answer = clients.submit(ask, web, "POST", f"{POST}?wait=30", headers_of(example), body())
    job_id = only_job(example)
    end(example, job_id)
    status, reply = answer.result(20)
    assert (status, reply["status"], reply["job_id"], reply["result"]) == (200, "completed", str(job_id), {})
    assert reply == ask(web, "GET", f"/api/jobs/{job_id}?wait=30", headers_of(example))[1]


def test_a_cancelled_job_has_ended_too(example: ExampleInstallation, web: DemoWeb, clients: ThreadPoolExecutor) -> None:
    answer = clients.submit(ask, web, "POST", f"{POST}?wait=30", headers_of(example), body())
    ask(web, "POST", f"/api/jobs/{only_job(example)}/cancel", headers_of(example))
    status, reply = answer.result(20)
    assert (status, reply["status"]) == (200, "cancelled")


def test_wait_timeout_returns_accepted_or_present_state(
    example: ExampleInstallation, web: DemoWeb, clients: ThreadPoolExecutor
) -> None:
    requested = headers_of(example) | {"Idempotency-Key": "once"}
    sent = body()
    began = monotonic()
    status, reply = ask(web, "POST", f"{POST}?wait=1", requested, sent)
    assert (status, reply["status"]) == (202, "accepted")
    assert monotonic() - began >= 0.9
    job_id = reply["job_id"]
    status, reply = ask(web, "GET", f"/api/jobs/{job_id}?wait=1", headers_of(example))
    assert (status, reply["status"]) == (200, "pending")
    # The same key is the same job, and its end the answer.
    again = clients.submit(ask, web, "POST", f"{POST}?wait=30", requested, sent)
    end(example, UUID(job_id))
    status, reply = again.result(20)
    assert (status, reply["job_id"], reply["status"]) == (200, job_id, "completed")
    assert len(example.rows("SELECT FROM background_jobs")) == 1


def test_hang_up_frees_the_place_and_no_place_means_no_wait(example: ExampleInstallation, web: DemoWeb) -> None:
    headers = headers_of(example, "eva")
    # Not due: the web's maintenance would have it run.
    job_id = example.enqueue({"order_ids": [1]}, user_id="eva", run_at=datetime.now(UTC) + timedelta(hours=1))
    path = f"/api/jobs/{job_id}?wait=60"
    connections = [unanswered(web, path, headers) for _ in range(2)]
    assert wait_until(lambda: not opens(web, "/api/stream", headers), within=10)
    began = monotonic()
    status, reply = ask(web, "GET", path, headers)
    assert (status, reply["status"]) == (200, "pending")
    assert monotonic() - began < 20
    for connection in connections:
        connection.close()
    assert wait_until(lambda: opens(web, "/api/stream", headers), within=10)


def test_a_server_that_stops_answers_at_once(example: ExampleInstallation, clients: ThreadPoolExecutor) -> None:
    with web_of(example, TURNO_LIMITS="streams_per_user=1") as web:
        answer = clients.submit(ask, web, "POST", f"{POST}?wait=60", headers_of(example), body())
        job_id = only_job(example)
        web.stop()
        status, reply = answer.result(10)
        assert (status, reply["job_id"]) == (202, str(job_id))


def somebody_waits(service: Service) -> bool:
    """Say whether a request waits for the end of its job."""
    return len(service.app.extensions["turno"].live) > 0


def test_waiting_client_receives_the_whole_result(service: Service, clients: ThreadPoolExecutor) -> None:
    ana = service.caller()
    job_id = ana.job()
    answer = clients.submit(ana.get, f"/api/jobs/{job_id}?wait=30")
    assert wait_until(lambda: somebody_waits(service), within=10)
    result = {"lines": ["x" * 100] * 200}
    service.rows("UPDATE background_jobs SET status = 'running', started_at = now(), attempt = 1 WHERE id = %s", job_id)
    service.rows("SELECT job_end(%s, 'completed', NULL, %s, NULL)", job_id, json.dumps(result))
    assert answer.result(20).get_json()["result"] == result


def test_wait_keeps_one_thread_of_many_but_not_the_only_one(service: Service, clients: ThreadPoolExecutor) -> None:
    ana = service.caller()
    job_id = ana.job()
    answer = clients.submit(ana.get, f"/api/jobs/{job_id}?wait=30")
    assert wait_until(lambda: somebody_waits(service), within=10)
    service.end(job_id)
    reply = answer.result(20)
    assert (reply.status_code, reply.get_json()["status"], reply.headers.get("Retry-After")) == (200, "failed", None)
    assert len(service.app.extensions["turno"].live) == 0
    alone = ana.app.test_client().get(f"/api/jobs/{ana.job()}?wait=60", headers=ana.headers)
    assert (alone.status_code, alone.get_json()["status"]) == (200, "pending")


@pytest.mark.parametrize("wait", ["-1", "1.5", "soon", "301", "", "1&wait=2", "+1"])
def test_nonsense_is_refused_by_name_before_there_is_a_job(service: Service, wait: str) -> None:
    before = service.everything()
    refused = service.caller().post(f"/api/jobs/greetings?wait={wait}", json={"payload": {}})
    assert (refused.status_code, refused.get_json()["errors"][0]["field"]) == (400, "wait")
    assert service.everything() == before
