"""Rows that a tenant's own SQL may store, and a page might stumble over: it is answered all the same, and shortly."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.api import Caller
from tests.capabilities.pages.test_pages import ORDERS, REGISTRY
from tests.visitor import Visitor
from turno.tenancy.identity.connections import TimeoutConnection
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.session import handler_session
from turno.tenancy.identity.tenant import HandlerLogin

if TYPE_CHECKING:
    from tests.api import Service

MASTER_KEY = b"a master key of 32 bytes or more"
ENQUEUE = (
    "SELECT job_id::text FROM jobs_enqueue(NULL, jsonb_build_array(jsonb_build_object('type', %s::text, 'version', 1,"
    " 'queue', 'hot', 'backend', 'exec', 'priority', 1, 'max_attempts', 4, 'payload', '{}'::jsonb,"
    " 'user_id', %s::text)), NULL, NULL)"
)


@pytest.fixture(scope="module", autouse=True)
def orders(service: Service) -> None:
    for statement in ORDERS.split(";\n"):
        service.rows(statement)


@pytest.fixture
def ana(service: Service) -> Visitor:
    visitor = Visitor(service.build(registry=REGISTRY))
    visitor.sign_in(None, "north")
    return visitor


def as_handler(service: Service, statement: str, *parameters: Any) -> None:
    """Run a statement of a handler's own."""
    logins = Logins(server=service.url, master_key=MASTER_KEY)
    login = HandlerLogin.of(service.tenants["north"])
    with handler_session(logins, login, application="test", kind=psycopg.Connection) as session:
        session.execute(statement.encode(), parameters)


@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("UPDATE orders SET ordered_on = 'infinity' WHERE id = 1", "31 Dec 9999"),
        ("UPDATE orders SET ordered_on = '5874897-01-01' WHERE id = 1", "31 Dec 9999"),
        ("UPDATE orders SET ordered_on = '-infinity' WHERE id = 1", "1 Jan 1"),
        ("UPDATE orders SET ordered_on = '0044-03-15 BC' WHERE id = 1", "1 Jan 1"),
        ("UPDATE customers SET company_name = repeat('x', 20000000)", "x" * 200 + "<"),
        ("UPDATE order_lines SET unit_price = 9e13, quantity = 2000000000", "180,000,000,000,000,000,000,000.00"),
    ],
)
def test_a_handler_s_own_rows_break_no_page(service: Service, ana: Visitor, statement: str, shown: str) -> None:
    as_handler(service, statement)
    page = ana.get("/?branch=north")
    assert page.status_code == 200
    assert shown in page.text
    assert len(page.text) < 200_000


@pytest.mark.parametrize("word", ["count", "choose", "starts", "orders", "time limit of", "InvalidPayload"])
def test_a_job_may_be_named_like_a_phrase_of_the_pages(service: Service, ana: Visitor, word: str) -> None:
    [(job_id,)] = service.rows(ENQUEUE, word, ana.user)
    error = json.dumps({"class": word, "message": word, "for_users": True})
    for status in ("pending", "failed"):
        for path in ("/", f"/jobs/{job_id}", "/notifications"):
            assert ana.get(f"{path}?branch=north").status_code == 200, (status, path)
        service.rows("UPDATE background_jobs SET status = 'running', started_at = now(), attempt = 1 WHERE id = %s"
                     " AND status = 'pending'", job_id)  # fmt: skip
        service.rows("SELECT job_end(id, 'failed', %s, NULL, %s) FROM background_jobs WHERE id = %s"
                     " AND status = 'running'", word, error, job_id)  # fmt: skip
    api = Caller(ana.client.application, "north", ana.user)
    for path in ("/api/jobs", f"/api/jobs/{job_id}", "/api/notifications"):
        assert api.get(path).status_code == 200


def test_unrepresentable_times_are_shown_as_bounds(service: Service) -> None:
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    with TimeoutConnection.connect(service.url, options="-c TimeZone=UTC") as session:
        requested = session.execute(
            "SELECT moment::timestamptz, day::date FROM (VALUES ('-infinity', '-infinity'), ('infinity', 'infinity'),"
            " ('0044-03-15 BC', '0044-03-15 BC'), ('294276-01-01', '5874897-01-01'), ('2026-11-22', '2026-11-22'))"
            " AS times (moment, day)"
        ).fetchall()
    assert [moment for moment, _ in requested] == [first, last, first, last, datetime(2026, 11, 22, tzinfo=UTC)]
    assert [day for _, day in requested] == [date.min, date.max, date.min, date.max, date(2026, 11, 22)]
