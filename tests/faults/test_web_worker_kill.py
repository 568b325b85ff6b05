"""Kill -9 of the web at each step between a request and its worker: before the commit nothing, after it a job."""

import http.client
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from cli.demo.web import DemoWeb
from cli.servers.free_port import free_port
from tests.installation import ExampleInstallation
from turno.client import Unavailable
from turno.commands.token import development_token
from turno.testing.processes import resume, stop
from turno.testing.wait import wait_until

# Where the web dies, and whether the job was committed by then.
WAITING = "SELECT pid FROM pg_stat_activity WHERE application_name = 'turno-web' AND wait_event_type = 'Lock'"
STEPS = [("received", False), ("accepted", True), ("slot_taken", True), ("launched", True)]


@contextmanager
def web_that_dies(example: ExampleInstallation, step: str) -> Iterator[DemoWeb]:
    """Serve with a web process that kills itself at the step, as its successors do."""
    port = free_port()
    environment = example.environment | {"TURNO_WEB_BIND": f"127.0.0.1:{port}", "TURNO_SHUTDOWN_GRACE_SECONDS": "1"}
    if step:
        environment["TURNO_CRASH_AT"] = step
    web = DemoWeb(port=port, environment=environment, log=example.folder / "web.log")
    web.start()
    try:
        yield web
    finally:
        web.stop()


def submit(example: ExampleInstallation, web: DemoWeb) -> UUID:
    payload = {"order_ids": example.order_ids()[:2]}
    return UUID(example.client(web).submit("batch_invoicing", payload, key="the-same-each-time").id)


def web_processes(web: DemoWeb) -> list[int]:
    """The web processes below the server that the test started."""
    assert web._process is not None
    pid = web._process.pid
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize(("step", "committed"), STEPS)
def test_killed_web_process_leaves_whole_job_or_none(
    example: ExampleInstallation,
    step: str,
    committed: bool,  # noqa: FBT001 - a column of the table
) -> None:
    with web_that_dies(example, step) as web, pytest.raises(Unavailable):
        submit(example, web)
    left = [row["id"] for row in example.rows("SELECT id FROM background_jobs")]
    assert len(left) == committed
    assert len(example.rows("SELECT 1 FROM background_job_events WHERE old_status IS NULL")) == committed
    with web_that_dies(example, "") as web:
        job_id = submit(example, web)
        assert left in ([], [job_id])
        example.sweep()
        assert wait_until(lambda: example.job(job_id)["status"] == "completed", within=30)
    assert len(example.rows("SELECT 1 FROM background_jobs")) == 1
    assert len(example.rows("SELECT 1 FROM invoices")) == 2
    assert len(example.rows("SELECT 1 FROM notifications")) == 1


def submission_that_waits(
    example: ExampleInstallation, web: DemoWeb, blocker: psycopg.Connection[Any]
) -> http.client.HTTPConnection:
    """Return the connection of a POST that waits for a lock of `blocker`."""
    blocker.execute("LOCK TABLE turno.tickets IN EXCLUSIVE MODE")
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=20)
    token = development_token(example.settings, user="ana", tenants=["suc0001"])
    connection.request(
        "POST", "/api/jobs/batch_invoicing", json.dumps({"payload": {"order_ids": [1]}}),
        {"Authorization": f"Bearer {token}", "X-Schema": "suc0001", "Content-Type": "application/json"},
    )  # fmt: skip
    assert wait_until(lambda: example.rows(WAITING) != [], within=20)
    return connection


def test_shutdown_answers_a_request_that_waits_too_long(example: ExampleInstallation) -> None:
    with web_that_dies(example, "") as web, psycopg.connect(example.url) as blocker:
        connection = submission_that_waits(example, web, blocker)
        session = example.rows(WAITING)[0]["pid"]
        stop(session)  # or the lock timeout would end the request within the grace period
        try:
            for child in web_processes(web):
                os.kill(child, signal.SIGTERM)
            answer = connection.getresponse()
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
            assert "Idempotency-Key" in json.loads(answer.read())["detail"]
        finally:
            resume(session)
            connection.close()


def test_web_death_inside_transaction_leaves_nothing(example: ExampleInstallation) -> None:
    """Between insert and commit: the session's end ends the transaction."""
    with web_that_dies(example, "") as web:
        blocker = psycopg.connect(example.url)
        connection = submission_that_waits(example, web, blocker)
        for child in web_processes(web):
            os.kill(child, signal.SIGKILL)
        with pytest.raises((http.client.HTTPException, OSError)):
            connection.getresponse()
        connection.close()
        # The server notices within its check interval, lock or no lock.
        assert wait_until(lambda: example.rows(WAITING) == [], within=10)
        blocker.close()
    assert example.rows("SELECT 1 FROM background_jobs") == []
    assert example.rows("SELECT 1 FROM turno.tickets") == []
