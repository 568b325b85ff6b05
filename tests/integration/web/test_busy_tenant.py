"""A tenant whose tables are locked: its own requests are told so soon, and are done when the lock is gone."""

from __future__ import annotations

from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from tests.problems import problem_of
from tests.visitor import Visitor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.api import Service


@contextmanager
def locked(service: Service, table: str, tenant: str = "north") -> Iterator[None]:
    """Hold what a migration of this tenant, or a job's own LOCK TABLE, holds."""
    with psycopg.connect(service.url) as connection:
        name = sql.Identifier(service.tenants[tenant].schema, table)
        connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(name))
        yield
        connection.rollback()


@pytest.mark.parametrize(
    # Seconds: a reader is refused the lock after 0.3 and a command after 1, while the engine waits for 5.
    ("method", "path", "within"),
    [
        ("GET", "/api/jobs", 3),
        ("GET", "/api/jobs/0192d3a4-5b6c-7d8e-9f01-23456789abcd", 3),
        ("GET", "/api/stream", 3),
        ("POST", "/api/jobs/greetings", 4),
        ("POST", "/api/jobs/0192d3a4-5b6c-7d8e-9f01-23456789abcd/cancel", 4),
        ("POST", "/api/jobs/0192d3a4-5b6c-7d8e-9f01-23456789abcd/retry", 4),
    ],
)
def test_what_is_locked_is_waited_for_but_not_for_long(service: Service, method: str, path: str, within: float) -> None:
    ana = service.caller()
    body = {"payload": {"greetings": [{"to": 1}], "day": "2030-01-31"}} if path.endswith("greetings") else None
    before = service.everything()
    with locked(service, "background_jobs"):
        began = monotonic()
        answer = ana.ask(method, path, json=body)
        assert monotonic() - began < within
        assert problem_of(answer, 503)["type"] == "/docs#tenant-busy"
        assert answer.headers["Retry-After"] == "1"
        assert service.caller("south").ask(method, path, json=body).status_code in {200, 202, 404}
    assert service.everything()[:2] == before[:2]
    assert ana.ask(method, path, json=body).status_code in {200, 202, 404}


def test_a_page_says_that_the_branch_is_busy(service: Service) -> None:
    visitor = Visitor(service.app)
    visitor.sign_in(None, "north", "south")
    with locked(service, "notifications"):
        page = visitor.get("/?branch=north")
        assert (page.status_code, page.headers["Retry-After"]) == (503, "1")
        assert "This branch is busy just now" in page.text
        assert visitor.get("/?branch=south").status_code == 200
