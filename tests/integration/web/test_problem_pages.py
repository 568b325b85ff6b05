"""Errors are shown on a page, within the visitor's frame and with a way on; programs get problem documents."""

from __future__ import annotations

import html
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql

from tests.problems import problem_of
from tests.visitor import Visitor
from turno.tenancy.identity.directory import Directory
from turno.web.pages.drawing import POLICY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from werkzeug.test import TestResponse

    from tests.api import Service

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
FRAME = ('class="brand"', 'action="/sign-out"', 'href="/notifications?branch=north"')
AGAIN = "Try again"


@pytest.fixture
def ana(service: Service) -> Visitor:
    visitor = Visitor(service.app)
    visitor.sign_in(None, "north")
    return visitor


def with_the_session_of(visitor: Visitor, service: Service, **changed: Any) -> Visitor:
    """Return the same browser before an application that differs."""
    other = Visitor(service.build(**changed))
    cookie = visitor.client.get_cookie("turno")
    assert cookie is not None
    other.client.set_cookie("turno", cookie.value)
    return other


def impatient(service: Service) -> Any:
    """Return the lender of the web's sessions, none of which waits long for a lock."""
    lend = service.app.extensions["turno"].connection

    @contextmanager
    def connection() -> Iterator[psycopg.Connection[Any]]:
        with lend() as session:
            session.execute("SET lock_timeout = '50ms'")
            try:
                yield session
            finally:
                session.execute("RESET lock_timeout")

    return connection


@contextmanager
def locked(service: Service, table: str) -> Iterator[None]:
    """Lock a table of north's against readers, as a migration might."""
    with psycopg.connect(service.url) as session:
        name = sql.Identifier(service.tenants["north"].schema, table)
        session.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(name))
        yield
        session.rollback()


def shown_in_the_frame(answer: TestResponse) -> str:
    assert answer.mimetype == "text/html"
    assert answer.headers["Content-Security-Policy"] == POLICY
    assert all(part in answer.text for part in FRAME)
    assert "This did not work" in answer.text
    assert ">Back to invoicing</a>" in answer.text
    return answer.text


def test_pages_ignore_campaign_parameters(service: Service, ana: Visitor) -> None:
    job = service.caller(user=ana.user).job()
    for path in ("/", f"/jobs/{job}", "/notifications"):
        assert ana.get(f"{path}?utm_source=x&fbclid=y&branch=north").status_code == 200
        assert ana.get(f"{path}?utm_source=x&utm_source=y").status_code == 200
    problem_of(service.caller().get("/api/jobs?utm_source=x"), 400)


def test_unknown_address_is_page_or_problem_document(ana: Visitor) -> None:
    for path in ("/nowhere", "/jobs", "/api/nowhere"):
        answer = ana.get(path, **BROWSER)
        assert answer.status_code == 404
        assert AGAIN not in shown_in_the_frame(answer)
        for accept in ("*/*", "application/json", "application/problem+json, text/html;q=0.9"):
            problem_of(ana.get(path, Accept=accept), 404)
        problem_of(ana.client.get(path), 404)
    answer = ana.get("/batches", **BROWSER)
    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")
    shown_in_the_frame(answer)


def test_signed_out_visitor_gets_a_page_without_session_frame(service: Service) -> None:
    answer = Visitor(service.app).get("/nowhere", **BROWSER)
    assert (answer.status_code, answer.mimetype) == (404, "text/html")
    assert 'class="brand"' in answer.text
    assert "/sign-out" not in answer.text
    assert "/notifications" not in answer.text


def test_missing_job_or_branch_is_reported_in_the_frame(ana: Visitor) -> None:
    for path in ("/jobs/x?branch=north", "/?branch=elsewhere", "/notifications?branch=elsewhere"):
        answer = ana.get(path)
        assert answer.status_code == 404
        assert AGAIN not in shown_in_the_frame(answer)


def test_locked_branch_page_shows_time_of_next_try(service: Service, ana: Visitor) -> None:
    visitor = with_the_session_of(ana, service, connection=impatient(service))
    with locked(service, "background_jobs"):
        answer = visitor.get("/?branch=north&show=failed")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    page = shown_in_the_frame(answer)
    assert "This branch is busy just now" in page
    assert f'href="/?branch=north&amp;show=failed">{AGAIN}</a>' in page
    assert visitor.get("/?branch=north&show=failed").status_code == 200


def test_a_form_that_met_a_lock_is_sent_again_as_it_was(service: Service, ana: Visitor) -> None:
    job = service.caller(user=ana.user).job()
    visitor = with_the_session_of(ana, service, connection=impatient(service))
    form = {"form": ana.form_token, "branch": "north", "on": "job"}
    with locked(service, "background_jobs"):
        answer = visitor.post(f"/jobs/{job}/cancel", form)
    page = shown_in_the_frame(answer)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    action, fields = re.findall(
        rf'<form method="post" action="([^"]*)">\s*(<input[^!]*?)<button class="main">{AGAIN}', page
    )[0]
    sent = {name: html.unescape(value) for name, value in re.findall(r'name="(\w+)" value="([^"]*)"', fields)}
    assert (action, sent) == (f"/jobs/{job}/cancel", form)
    assert visitor.post(action, sent).headers["Location"] == f"/jobs/{job}?branch=north"


def test_only_a_form_of_this_session_is_offered_again(service: Service, ana: Visitor) -> None:
    visitor = with_the_session_of(ana, service, connection=impatient(service))
    with locked(service, "background_jobs"):
        answer = visitor.post(f"/jobs/{service.caller().tenant}/cancel", {"form": "forged", "branch": "north"})
        assert (answer.status_code, AGAIN in answer.text) == (403, False)
        many = {"form": ana.form_token, "branch": "north", "more": ["x"] * 200}
        answer = visitor.post("/jobs/0192d3a4-5b6c-7d8e-9f01-23456789abcd/cancel", many)
        assert (answer.status_code, AGAIN in answer.text) == (503, False)


def test_page_is_drawn_without_database_and_directory(service: Service, ana: Visitor) -> None:
    def away() -> AbstractContextManager[psycopg.Connection[Any]]:
        raise psycopg.OperationalError("no connection")

    answer = with_the_session_of(ana, service, connection=away, directory=Directory(away)).get("/?branch=north")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    for part in ("The database cannot be reached", 'class="brand"', 'action="/sign-out"', AGAIN):
        assert part in answer.text


def test_server_fault_is_shown_by_its_logged_reference(
    service: Service, ana: Visitor, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> AbstractContextManager[psycopg.Connection[Any]]:
        raise RuntimeError("secret words")

    answer = with_the_session_of(ana, service, connection=broken).get("/?branch=north")
    assert answer.status_code == 500
    page = shown_in_the_frame(answer)
    (named,) = re.findall(r"Pass on this reference: <code>([\w:-]+)</code>", page)
    assert named in [getattr(record, "error_id", None) for record in caplog.records]
    assert "secret words" not in page
    assert AGAIN in page
