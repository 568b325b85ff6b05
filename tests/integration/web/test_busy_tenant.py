"""A tenant with locked tables: its own requests are refused soon, and are done when the lock is gone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql

from tests.problems import problem_of
from tests.visitor import Visitor
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.api import Service


@contextmanager
def locked(service: Service, table: str, tenant: str = "north") -> Iterator[None]:
    """Hold the lock of a tenant's migration, or of a job's own LOCK TABLE."""
    with psycopg.connect(service.url) as connection:
        name = sql.Identifier(service.tenants[tenant].schema, table)
        connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(name))
        yield
        connection.rollback()


@contextmanager
def somebody_patient(service: Service) -> Iterator[psycopg.Connection[Any]]:
    """A session that is to wait for the lock for half the engine's time."""
    with psycopg.connect(service.url, autocommit=True) as other:
        other.execute("SET lock_timeout = '2500ms'")
        yield other
        other.cancel_safe()
        while other.pgconn.get_result() is not None:
            pass


def waiting(service: Service, pid: int | None = None) -> bool:
    """Whether this session, or any, waits for a lock."""
    return bool(service.rows("SELECT pid FROM pg_locks WHERE NOT granted AND pid = coalesce(%s, pid)", pid))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/jobs"),
        ("GET", "/api/jobs/0192d3a4-5b6c-7d8e-9f01-23456789abcd"),
        ("GET", "/api/stream"),
        ("POST", "/api/jobs/greetings"),
        ("POST", "/api/jobs/0192d3a4-5b6c-7d8e-9f01-23456789abcd/cancel"),
        ("POST", "/api/jobs/0192d3a4-5b6c-7d8e-9f01-23456789abcd/retry"),
    ],
)
def test_lock_is_awaited_for_a_short_time(service: Service, method: str, path: str) -> None:
    ana = service.caller()
    body = {"payload": {"greetings": [{"to": 1}], "day": "2030-01-31"}} if path.endswith("greetings") else None
    before = service.everything()
    with (
        locked(service, "background_jobs"),
        somebody_patient(service) as other,
        ThreadPoolExecutor(1) as beside,
    ):
        requested = beside.submit(ana.ask, method, path, json=body)
        # The second timeout begins after the request's, however long the request takes to get there.
        assert wait_until(lambda: waiting(service) or requested.done(), within=30)
        table = sql.Identifier(service.tenants["north"].schema, "background_jobs")
        other.pgconn.send_query(sql.SQL("SELECT FROM {}").format(table).as_string(other).encode())
        other.pgconn.flush()
        answer = requested.result()
        assert wait_until(lambda: waiting(service, other.info.backend_pid), within=1)
        assert problem_of(answer, 503)["type"] == "/docs#tenant-busy"
        assert answer.headers["Retry-After"] == "1"
        with closing(service.caller("south").ask(method, path, json=body)) as elsewhere:
            assert elsewhere.status_code in {200, 202, 404}
    assert service.everything()[:2] == before[:2]
    with closing(ana.ask(method, path, json=body)) as afterwards:
        assert afterwards.status_code in {200, 202, 404}


def test_page_reports_a_busy_branch(service: Service) -> None:
    visitor = Visitor(service.app)
    visitor.sign_in(None, "north", "south")
    with locked(service, "notifications"):
        page = visitor.get("/?branch=north")
        assert (page.status_code, page.headers["Retry-After"]) == (503, "1")
        assert "This branch is busy just now" in page.text
        assert visitor.get("/?branch=south").status_code == 200
