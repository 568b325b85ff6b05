"""One tenant's requests stand still, or come all at once: another's are answered as when all is calm."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from statistics import median
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from tests.integration.streaming.test_streams import ask, headers_of, web_of
from turno.servers.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cli.demo.web import DemoWeb
    from tests.installation import ExampleInstallation

CLIENTS = 32  # of the web's 16 threads
HELD_UP = 0.15  # seconds by which others may answer later, of the 0.3 and 1 that a lock is waited for


@contextmanager
def locked(world: ExampleInstallation) -> Iterator[None]:
    with psycopg.connect(world.url) as connection:
        table = sql.Identifier(world.one.schema, "background_jobs")
        connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(table))
        yield
        connection.rollback()


def timed(web: DemoWeb, method: str, path: str, headers: dict[str, str], body: str | None = None) -> Any:
    began = monotonic()
    status, answer = ask(web, method, path, headers, body)
    return status, answer, monotonic() - began


def median_of(world: ExampleInstallation, web: DemoWeb) -> float:
    """Return the seconds that one of the other tenant's requests takes, as a rule."""
    answers = [timed(web, "GET", "/api/jobs", headers_of(world, tenant="suc0002")) for _ in range(30)]
    assert {status for status, _, _ in answers} == {200}
    found: float = median(took for _, _, took in answers)
    return found


def test_a_locked_tenant_holds_half_of_the_threads_at_most(world: ExampleInstallation) -> None:
    over, told = Event(), []
    body = json.dumps({"payload": {"order_ids": world.order_ids()[:1]}})
    requests = (("GET", "/api/jobs", None), ("POST", "/api/jobs/batch_invoicing", body))

    def submit_again(number: int) -> None:
        method, path, sent = requests[number % 2]
        while not over.is_set():
            told.append(timed(web, method, path, headers_of(world, f"user{number}"), sent))

    with web_of(world) as web, ThreadPoolExecutor(CLIENTS) as clients:
        calm = median_of(world, web)
        with locked(world):
            for number in range(CLIENTS):
                clients.submit(submit_again, number)
            try:
                assert wait_until(lambda: len(told) >= CLIENTS, within=20)
                held_up = median_of(world, web) - calm
            finally:
                over.set()
                clients.shutdown()
        assert held_up < HELD_UP
        assert {(status, answer.get("type")) for status, answer, _ in told} == {(503, "/docs#tenant-busy")}
        assert ask(web, "GET", "/api/jobs", headers_of(world))[0] == 200


def test_a_burst_of_one_tenant_waits_for_its_places_and_is_answered(world: ExampleInstallation) -> None:
    with web_of(world, WEB_THREADS="4") as web, ThreadPoolExecutor(20) as clients:
        stream = clients.map(lambda _: ask(web, "GET", "/api/jobs", headers_of(world))[0], range(60))
        assert set(stream) == {200}
