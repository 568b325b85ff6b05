"""One tenant's requests stand still, or come all at once: another's are answered all the same."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from tests.api import in_an_hour
from tests.capabilities.streams.test_awaiting import unanswered
from tests.capabilities.streams.test_streams import ask, end, headers_of, opens, web_of
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.installation import ExampleInstallation

CLIENTS = 32  # of the web's 16 threads
THREADS_PER_TENANT = 8
LOCK_WAITS = """
SELECT count(*) AS n FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock' AND application_name LIKE 'turno-web%%'
"""


@contextmanager
def locked(example: ExampleInstallation) -> Iterator[None]:
    with psycopg.connect(example.url) as connection:
        table = sql.Identifier(example.one.schema, "background_jobs")
        connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(table))
        yield
        connection.rollback()


def test_a_locked_tenant_holds_half_of_the_threads_at_most(example: ExampleInstallation) -> None:
    over, reply = Event(), []
    body = json.dumps({"payload": {"order_ids": example.order_ids()[:1]}})
    requests = (("GET", "/api/jobs", None), ("POST", "/api/jobs/batch_invoicing", body))

    def ask_again(number: int) -> None:
        method, path, sent = requests[number % 2]
        while not over.is_set():
            reply.append(ask(web, method, path, headers_of(example, f"user{number}"), sent))

    with web_of(example) as web, ThreadPoolExecutor(CLIENTS) as clients:
        with locked(example):
            for number in range(CLIENTS):
                clients.submit(ask_again, number)
            try:
                assert wait_until(lambda: len(reply) >= CLIENTS, within=20)
                waiting = []
                for _ in range(30):
                    assert ask(web, "GET", "/api/jobs", headers_of(example, tenant="suc0002"))[0] == 200
                    waiting.append(example.rows(LOCK_WAITS)[0]["n"])
            finally:
                over.set()
                clients.shutdown()
        assert 0 < max(waiting) <= THREADS_PER_TENANT
        assert {(status, answer.get("type")) for status, answer in reply} == {(503, "/docs#tenant-busy")}
        assert ask(web, "GET", "/api/jobs", headers_of(example))[0] == 200


def test_burst_of_one_tenant_waits_and_is_answered(example: ExampleInstallation) -> None:
    with web_of(example, TURNO_WEB_THREADS="4") as web, ThreadPoolExecutor(20) as clients:
        stream = clients.map(lambda _: ask(web, "GET", "/api/jobs", headers_of(example))[0], range(60))
        assert set(stream) == {200}


def test_many_waiting_requests_of_a_tenant_delay_no_tenant(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    path, mine = f"/api/jobs/{job_id}?wait=60", headers_of(example)
    body = json.dumps({"payload": {"order_ids": example.order_ids()[:1]}, "run_at": in_an_hour()})
    with web_of(example, TURNO_WEB_THREADS="2", TURNO_LIMITS="streams_per_user=20,streams_per_tenant=20") as web:
        # More than threads, and few enough that none waits too long for a thread on a crowded machine.
        connections = [unanswered(web, path, mine) for _ in range(20)]
        assert wait_until(lambda: not opens(web, "/api/stream", mine), within=30)  # all of them wait
        for tenant in ("suc0001", "suc0002"):
            status, reply = ask(web, "POST", "/api/jobs/batch_invoicing", headers_of(example, "ben", tenant), body)
            assert (status, reply["status"]) == (202, "accepted")
        end(example, job_id)
        for connection in connections:
            assert connection.recv(12) == b"HTTP/1.1 200"
            connection.close()
