"""Refusals at the door: each with its status and a sentence, and no row is left behind."""

from __future__ import annotations

import json
import time
from io import BytesIO
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.api import SETTINGS, in_an_hour, token
from tests.greetings import valid_body
from tests.problems import problem_of, without_instance
from turno.tenancy.identity.logins import Logins
from turno.tenancy.provisioning.install import install
from turno.tenancy.provisioning.provision import add_tenant, revoke_tokens
from turno.tenancy.provisioning.removal import remove_tenant

if TYPE_CHECKING:
    from tests.api import Service

GOOD = {"to": 1}
DAY = "2030-01-31"


def payload(**changed: Any) -> dict[str, Any]:
    body = {"greetings": [GOOD], "day": DAY} | changed
    return {"payload": {name: value for name, value in body.items() if value is not ...}}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "payload"),
        ({"payload": None}, "payload"),
        ({"payload": []}, "payload"),
        ({"payload": "text"}, "payload"),
        (payload(day=...), "payload.day"),
        (payload(day=None), "payload.day"),
        (payload(day=20300131), "payload.day"),
        (payload(day="31/01/2030"), "payload.day"),
        (payload(day="2030-02-30"), "payload.day"),
        (payload(greetings=...), "payload.greetings"),
        (payload(greetings={}), "payload.greetings"),
        (payload(greetings=[]), "payload.greetings"),
        (payload(greetings=[GOOD, GOOD]), "payload.greetings"),
        (payload(greetings=[GOOD, 5]), "payload.greetings.1"),
        (payload(greetings=[{"to": "1"}]), "payload.greetings.0.to"),
        (payload(greetings=[{"to": 1.0}]), "payload.greetings.0.to"),
        (payload(greetings=[{"to": 1.5}]), "payload.greetings.0.to"),
        (payload(greetings=[{"to": True}]), "payload.greetings.0.to"),
        (payload(greetings=[{"to": None}]), "payload.greetings.0.to"),
        (payload(greetings=[{"to": 1, "words": 5}]), "payload.greetings.0.words"),
        (payload(greetings=[{"to": 1, "worth": "much"}]), "payload.greetings.0.worth"),
        (payload(greetings=[{"to": 1, "worth": "NaN"}]), "payload.greetings.0.worth"),
        (payload(greetings=[{"to": 1, "worth": "Infinity"}]), "payload.greetings.0.worth"),
        (payload(greetings=[{"to": 1, "status": "done"}]), "payload.greetings.0.status"),
        (payload(tone="rude"), "payload.tone"),
        (payload(tenant="south"), "payload.tenant"),
        (valid_body(priority="first"), "priority"),
        (valid_body(priority=0), "priority"),
        (valid_body(priority=None), "priority"),
        (valid_body(priority=["urgent"]), "priority"),
        (valid_body(priority="URGENT"), "priority"),
        (valid_body(run_at="tomorrow"), "run_at"),
        (valid_body(run_at="2030-01-31"), "run_at"),
        (valid_body(run_at="2030-01-31T09:00:00"), "run_at"),
        (valid_body(run_at="2030-02-31T09:00:00Z"), "run_at"),
        (valid_body(run_at="0001-01-01T00:00:00+23:59"), "run_at"),
        (valid_body(run_at="٢٠٣٠-01-31T09:00:00Z"), "run_at"),
        (valid_body(run_at=1_900_000_000), "run_at"),
        (valid_body(run_at=None), "run_at"),
        (valid_body(run_at=in_an_hour(24 * 367)), "run_at"),
        (valid_body(run_at="9999-12-31T23:59:59-23:59"), "run_at"),
        (valid_body(run_at="0001-01-02T00:00:00Z"), "run_at"),
        (valid_body(run_at=in_an_hour(-25)), "run_at"),
        (valid_body(expires_at="soon"), "expires_at"),
        (valid_body(expires_at="2020-01-31T09:00:00Z"), "expires_at"),
        (valid_body(run_at=in_an_hour(2), expires_at=in_an_hour(1)), "expires_at"),
        (valid_body(expires_at="9999-12-31T00:00:00Z"), "expires_at"),
        (valid_body(run_at=in_an_hour(24 * 300), expires_at=in_an_hour(24 * 667)), "expires_at"),
        # Mass assignment: a field of the server is no field of the request.
        (valid_body(status="completed"), "status"),
        (valid_body(tenant="south"), "tenant"),
        (valid_body(user_id="boss"), "user_id"),
        (valid_body(attempt=3), "attempt"),
        (valid_body(max_attempts=100), "max_attempts"),
        (valid_body(queue="another"), "queue"),
        (valid_body(run_as="postgres"), "run_as"),
        (valid_body(parent_id="0192d3a4-5b6c-7d8e-9f01-23456789abcd"), "parent_id"),
        (valid_body(idempotency_key="k"), "idempotency_key"),
        (valid_body(type="other"), "type"),
        (valid_body(id="0192d3a4-5b6c-7d8e-9f01-23456789abcd"), "id"),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_stored(service: Service, body: dict[str, Any], field: str) -> None:
    before = service.everything()
    refused = problem_of(service.caller().post("/api/jobs/greetings", json=body), 400)
    assert field in [error["field"] for error in refused["errors"]]
    assert all(error["problem"] for error in refused["errors"])
    assert service.everything() == before


def test_all_errors_are_listed_at_once(service: Service) -> None:
    body = payload(greetings=[{"to": "1"}, {"words": 2}], day="x", more=1) | {"priority": "x", "run_at": "x", "who": 1}
    refused = problem_of(service.caller().post("/api/jobs/greetings", json=body), 400)
    assert {error["field"] for error in refused["errors"]} == {
        "who",
        "priority",
        "run_at",
        "payload.day",
        "payload.more",
        "payload.greetings.0.to",
        "payload.greetings.1.to",
        "payload.greetings.1.words",
    }


def test_a_thousand_problems_are_cut_with_their_number(service: Service) -> None:
    body = payload(greetings=[{"to": "x"}] * 1000)
    refused = problem_of(service.caller().post("/api/jobs/greetings", json=body), 400)
    assert len(refused["errors"]) == 101
    assert "900 more" in refused["errors"][-1]["problem"]


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b'{"payload": {"greetings": [{"to": NaN}], "day": "2030-01-31"}}', 400),
        (b'{"payload": {}, "payload": {}}', 400),
        (b'{"payload": "\xff"}', 400),
        (b'{"payload": {"note": "\\u0000"}}', 400),
        (b'{"payload": {"note": "\\ud800"}}', 400),
        (b'{"payload": ' + b"[" * 30_000 + b"]" * 30_000 + b"}", 400),
        (b'{"payload": ' + b"9" * 60_000 + b"}", 400),
        (b'{"payload": "' + b"x" * SETTINGS.limits.body_bytes + b'"}', 413),
    ],
    ids=lambda value: str(value[:30]) if isinstance(value, bytes) else str(value),
)
def test_a_body_that_cannot_be_kept_is_refused(service: Service, raw: bytes, status: int) -> None:
    before = service.everything()
    headers = {"Content-Type": "application/json"}
    problem_of(service.caller().post("/api/jobs/greetings", data=raw, headers=headers), status)
    assert service.everything() == before


def test_a_large_body_without_a_length_is_refused(service: Service) -> None:
    before = service.everything()
    stream = BytesIO(json.dumps(valid_body()).encode() + b" " * SETTINGS.limits.body_bytes)
    answer = service.caller().post(
        "/api/jobs/greetings",
        input_stream=stream,
        headers={"Content-Type": "application/json", "Transfer-Encoding": "chunked"},
        environ_overrides={"wsgi.input_terminated": True},
    )
    problem_of(answer, 413)
    assert service.everything() == before


def test_a_form_is_no_json(service: Service) -> None:
    problem_of(service.caller().post("/api/jobs/greetings", data={"payload": "x"}), 415)


@pytest.mark.parametrize("job_type", ["other", "Greetings", "greetings%00", "..%2Fadmin", "0192d3a4-5b6c-7d8e-9f01-0"])
def test_an_unknown_type_is_refused_before_its_body_is_read(service: Service, job_type: str) -> None:
    before = service.everything()
    status = 404 if "%2F" in job_type else 422
    problem_of(service.caller().post(f"/api/jobs/{job_type}", data=b"{"), status)
    assert service.everything() == before


@pytest.mark.parametrize(
    "slug",
    [
        "",
        "North",
        "north ",
        "nowhere",
        "south",
        "north,south",
        "../north",
        "t_0123456789ab",
        "x" * 300,
        "north'--",
        "ñ",
    ],
)
def test_a_tenant_that_is_not_the_token_s_is_the_same_404(service: Service, slug: str) -> None:
    ana = service.caller("north")
    reference = ana.get("/api/jobs", headers={"X-Schema": "not-there"})
    before = service.everything()
    for method, path in (("GET", "/api/jobs"), ("POST", "/api/jobs/greetings")):
        answer = ana.ask(method, path, headers={"X-Schema": slug})
        problem_of(answer, 404)
        assert without_instance(answer) == without_instance(reference)
    assert service.everything() == before


def test_without_the_header_it_is_named(service: Service) -> None:
    ana = service.caller()
    headers = {"Authorization": ana.headers["Authorization"]}
    answer = service.app.test_client().get("/api/jobs", headers=headers)
    assert "X-Schema" in problem_of(answer, 400)["detail"]


def test_a_tenant_named_by_the_token_alone_does_not_exist(service: Service) -> None:
    headers = {"Authorization": f"Bearer {token('ana', 'ghost', 'DROP')}", "X-Schema": "ghost"}
    problem_of(service.app.test_client().get("/api/jobs", headers=headers), 404)


def test_missing_token_reveals_nothing(service: Service) -> None:
    for headers in ({}, {"X-Schema": "north"}, {"X-Schema": "nowhere"}):
        answer = service.app.test_client().get("/api/jobs", headers=headers)
        problem_of(answer, 401)
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def test_a_revoked_token_opens_nothing_and_a_newer_one_does(service: Service) -> None:
    logins = Logins(server=service.url, master_key=b"a master key of 32 bytes or more")
    with psycopg.connect(service.url, autocommit=True) as admin:
        install(admin, logins)
        add_tenant(admin, logins, "west", "acme")
        old = {"Authorization": f"Bearer {token('ana', 'west', iat=int(time.time()) - 5)}", "X-Schema": "west"}
        client = service.app.test_client()
        assert client.get("/api/jobs", headers=old).status_code == 200
        # A token of an issuer with a clock ahead of ours by the whole tolerance.
        ahead = old | {"Authorization": f"Bearer {token('ana', 'west', iat=int(time.time()) + 28)}"}
        assert client.get("/api/jobs", headers=ahead).status_code == 200
        revoke_tokens(admin, "west")
        for revoked in (old, ahead):
            answer = client.get("/api/jobs", headers=revoked)
            assert "revoked" in problem_of(answer, 401)["detail"]
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        admin.execute(
            "UPDATE turno.tenants SET tokens_valid_from = tokens_valid_from - interval '1 min' WHERE slug = 'west'"
        )
        new = old | {"Authorization": f"Bearer {token('ana', 'west', iat=int(time.time()))}"}
        assert client.get("/api/jobs", headers=new).status_code == 200
        remove_tenant(admin, logins, "west")
        removed = client.get("/api/jobs", headers=new)
        unknown = service.caller().get("/api/jobs", headers={"X-Schema": "nowhere"})
        assert without_instance(removed) == without_instance(unknown)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/api", 404),
        ("GET", "/api/jobs/", 404),
        ("GET", "//api/jobs", 404),
        ("GET", "/api//jobs", 404),
        ("GET", "/static/../__init__.py", 404),
        ("PUT", "/api/jobs", 405),
        ("POST", "/api/jobs", 405),
        ("DELETE", "/api/jobs/0192d3a4-5b6c-7d8e-9f01-23456789abcd", 405),
        ("OPTIONS", "/api/jobs", 405),
        ("TRACE", "/api/jobs", 405),
        ("GET", "/api/jobs/x/cancel", 405),
        ("POST", "/healthz", 405),
    ],
)
def test_missing_resource_is_reported(service: Service, method: str, path: str, status: int) -> None:
    answer = service.caller().ask(method, path)
    problem_of(answer, status)
    assert ("Allow" in answer.headers) == (status == 405)


def test_every_answer_carries_the_security_headers(service: Service) -> None:
    ana = service.caller()
    for path in ("/api/jobs", "/api/jobs/x", "/nowhere", "/healthz", "/docs", "/openapi.json"):
        answer = ana.get(path, base_url="https://turno.example")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
        assert "max-age" in answer.headers["Strict-Transport-Security"]
        assert "Server" not in answer.headers
        assert "Access-Control-Allow-Origin" not in answer.headers
    assert ana.get("/api/jobs").headers["Cache-Control"] == "no-store"
    assert "Strict-Transport-Security" not in ana.get("/api/jobs").headers
