"""The pages' cookie: the permission to start it, the pages that it opens, and no use by another site."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest

from tests.api import KEY, token
from tests.greetings import valid_body
from tests.problems import problem_of
from tests.visitor import OURS, Visitor
from turno.settings import Settings
from turno.web.auth import MAX_COOKIE_BYTES

if TYPE_CHECKING:
    from tests.api import Service

FOREIGN = {
    "a page of another site": {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"},
    "a page of a neighbouring host": {"Sec-Fetch-Site": "same-site", "Origin": "http://other.localhost"},
    "an older browser on another site": {"Origin": "http://evil.example"},
    "a page of the same host on another port": {"Origin": "http://localhost:8081"},
    "a page without an origin": {"Origin": "null"},
    "nothing about the origin": {},
    "a liar with an honest browser": {"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"},
}
foreign = pytest.mark.parametrize("headers", FOREIGN.values(), ids=FOREIGN)


@pytest.fixture
def visitor(service: Service) -> Visitor:
    return Visitor(service.app)


@pytest.fixture
def ana(visitor: Visitor) -> Visitor:
    assert visitor.sign_in(None, "north", "south").status_code == 303
    return visitor


def test_signed_out_visitor_sees_the_sign_in(visitor: Visitor) -> None:
    answer = visitor.get("/")
    assert answer.status_code == 200
    assert '<form method="post" action="/sign-in">' in answer.text
    assert "/sign-in/demo" not in answer.text
    assert visitor.get("/notifications").status_code == 401


def test_cookie_is_hidden_from_scripts_and_foreign_sites(visitor: Visitor) -> None:
    set_cookie = visitor.sign_in("ana", "north").headers["Set-Cookie"]
    assert set_cookie.startswith("turno=ey")
    parts = {part.strip().partition("=")[0] for part in set_cookie.split(";")[1:]}
    assert {"HttpOnly", "SameSite", "Path", "Max-Age"} <= parts
    assert "SameSite=Lax" in set_cookie
    assert "Domain" not in parts
    assert "Secure" not in parts  # plain HTTP, as in the demo


def test_over_https_the_cookie_belongs_to_this_host_alone(service: Service) -> None:
    visitor = Visitor(service.app, base_url="https://localhost")
    set_cookie = visitor.sign_in("ana", "north").headers["Set-Cookie"]
    assert set_cookie.startswith("__Host-turno=")
    assert "Secure" in set_cookie
    assert "Path=/" in set_cookie
    assert "north" in visitor.get("/").text


def test_https_ignores_a_cookie_planted_by_a_neighbour(service: Service) -> None:
    visitor = Visitor(service.app, base_url="https://localhost")
    visitor.client.set_cookie("turno", token("mallory", "north"), domain="localhost", secure=True)
    assert 'action="/sign-in"' in visitor.get("/").text


def test_the_session_ends_with_its_token(visitor: Visitor) -> None:
    set_cookie = visitor.sign_in("ana", "north", exp=int(time.time()) + 90).headers["Set-Cookie"]
    [lasts] = [part.strip() for part in set_cookie.split(";") if "Max-Age" in part]
    assert 80 <= int(lasts.removeprefix("Max-Age=")) <= 90
    visitor.client.set_cookie("turno", token("ana", "north", exp=int(time.time()) - 90))
    assert 'action="/sign-in"' in visitor.get("/").text


def test_a_planted_session_is_replaced_at_the_sign_in(visitor: Visitor) -> None:
    visitor.client.set_cookie("turno", token("mallory", "north"))
    planted = visitor.form_token
    visitor.sign_in("ana", "north")
    assert 'title="ana"' in visitor.get("/").text
    assert visitor.form_token != planted
    answer = visitor.post("/notifications/read", {"form": planted, "branch": "north"})
    assert answer.status_code == 403


@pytest.mark.parametrize("given", ["", "x", "ey.ey.ey", "a" * (MAX_COOKIE_BYTES + 1)])
def test_a_token_that_is_none_starts_no_session(visitor: Visitor, given: str) -> None:
    answer = visitor.post("/sign-in", {"token": given})
    assert answer.status_code in {400, 401}
    assert "Set-Cookie" not in answer.headers
    assert 'role="alert"' in answer.text


@foreign
def test_foreign_site_signs_no_user_in_or_out(visitor: Visitor, headers: dict[str, str]) -> None:
    for path in ("/sign-in", "/sign-in/demo", "/sign-out"):
        answer = visitor.post(path, {"token": token("mallory", "north")}, headers=headers)
        assert answer.status_code == 403
        assert "Set-Cookie" not in answer.headers


@foreign
def test_foreign_site_changes_nothing_with_the_cookie(service: Service, ana: Visitor, headers: dict[str, str]) -> None:
    job, form_token = service.caller(user=ana.user).job(), ana.form_token
    before = service.everything()
    for path in (f"/jobs/{job}/cancel", f"/jobs/{job}/retry", "/batches", "/notifications/read"):
        assert ana.post(path, {"form": form_token, "branch": "north"}, headers=headers).status_code == 403
    for method, path in (("POST", "/api/jobs/greetings"), ("POST", f"/api/jobs/{job}/cancel")):
        answer = ana.client.open(path, method=method, json=valid_body(), headers=headers | {"X-Schema": "north"})
        assert problem_of(answer, 403)["type"] == "/docs#foreign-site"
    assert service.everything() == before


@pytest.mark.parametrize("form", ["", "x", "0" * 64, "é"])
def test_a_form_without_the_session_s_token_is_refused(service: Service, ana: Visitor, form: str) -> None:
    job = service.caller(user=ana.user).job()
    assert ana.post(f"/jobs/{job}/cancel", {"form": form, "branch": "north"}).status_code == 403
    assert ana.post(f"/jobs/{job}/cancel", {"form": ana.form_token, "branch": "north"}).status_code == 303


def test_one_session_s_forms_are_no_use_in_another(service: Service, ana: Visitor) -> None:
    ben = Visitor(service.app)
    ben.sign_in()
    job = service.caller(user=ben.user).job()
    assert ben.post(f"/jobs/{job}/cancel", {"form": ana.form_token, "branch": "north"}).status_code == 403


def test_the_api_takes_the_cookie_of_our_own_pages(ana: Visitor) -> None:
    north = {"X-Schema": "north"}
    submitted = ana.client.post("/api/jobs/greetings", json=valid_body(), headers=OURS | north)
    assert submitted.status_code == 202
    assert ana.client.get(submitted.headers["Location"], headers=north).get_json()["user"] == ana.user
    by_origin = ana.client.post(
        "/api/jobs/greetings", json=valid_body(), headers={"Origin": "http://localhost"} | north
    )
    assert by_origin.status_code == 202
    assert ana.client.get("/api/jobs", headers={"X-Schema": "elsewhere"}).status_code == 404
    assert ana.client.get("/api/jobs").status_code == 400


def test_a_header_wins_over_the_cookie(service: Service, ana: Visitor) -> None:
    ben = service.caller("south")
    answer = ana.client.post("/api/jobs/greetings", json=valid_body(), headers=ben.headers)
    assert answer.status_code == 202  # another program, with a token: no browser added it
    assert ben.get(answer.headers["Location"]).get_json()["user"] == ben.user
    wrong = ana.client.get("/api/jobs", headers={"Authorization": "Bearer x", "X-Schema": "north"})
    assert wrong.status_code == 401


def test_signing_out_takes_the_cookie_away(ana: Visitor) -> None:
    answer = ana.post("/sign-out", {})
    assert answer.status_code == 303
    assert "Max-Age=0" in answer.headers["Set-Cookie"]
    assert 'action="/sign-in"' in ana.get("/").text


def test_a_revoked_token_opens_no_page(service: Service, ana: Visitor) -> None:
    service.rows("UPDATE tenants SET tokens_valid_from = now() + interval '1 minute' WHERE slug = 'south'")
    try:
        assert 'action="/sign-in"' in ana.get("/?branch=south").text
        assert "<h2" in ana.get("/?branch=north").text
    finally:
        service.rows("UPDATE tenants SET tokens_valid_from = '-infinity' WHERE slug = 'south'")


@pytest.mark.parametrize(
    "elsewhere", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)"]
)
def test_the_sign_in_leads_nowhere_else(visitor: Visitor, elsewhere: str) -> None:
    answer = visitor.post("/sign-in", {"token": token("ana", "north"), "next": elsewhere})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    shown = visitor.post("/sign-in", {"token": "x", "next": elsewhere})
    assert 'name="next" value="/"' in shown.text


def test_sign_in_leads_back_to_the_requested_page(visitor: Visitor) -> None:
    wanted = visitor.hidden("/notifications?branch=north", "next")
    assert wanted == "/notifications?branch=north"
    answer = visitor.post("/sign-in", {"token": token("ana", "north"), "next": wanted})
    assert answer.headers["Location"] == wanted


def test_demo_button_appears_by_the_setting(service: Service, visitor: Visitor) -> None:
    assert visitor.post("/sign-in/demo", {}).status_code == 404
    demo = Settings(jwt_key=KEY, demo_token=token("ana", "north"))
    played = Visitor(service.build(settings=demo))
    assert "/sign-in/demo" in played.get("/").text
    assert played.post("/sign-in/demo", {}).status_code == 303
    assert 'title="ana"' in played.get("/").text


@pytest.mark.parametrize(
    "host", ["evil.example:18080", "127.0.0.1.evil.example", "10.0.0.7", "localhost.evil", "[::1", ""]
)
def test_demo_refuses_host_names_that_can_be_redirected(service: Service, host: str) -> None:
    demo = Settings(jwt_key=KEY, demo_token=token("ana", "north"))
    played = Visitor(service.build(settings=demo))
    theirs = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
    answer = played.post("/sign-in/demo", {}, headers=theirs)
    assert answer.status_code in {400, 404}
    assert "Set-Cookie" not in answer.headers
    assert "/sign-in/demo" not in played.get("/", Host=host).text
    for own in ("localhost:18080", "127.0.0.1:18080", "[::1]:18080", "127.0.0.2"):
        assert "/sign-in/demo" in played.get("/", Host=own).text
        assert played.post("/sign-in/demo", {}, headers={"Host": own, "Origin": f"http://{own}"}).status_code == 303


def test_a_page_runs_no_script_and_no_style_but_our_files(ana: Visitor) -> None:
    for path in ("/", "/notifications", "/jobs/x"):
        answer = ana.get(path)
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert " style=" not in answer.text
        assert " onclick=" not in answer.text
        assert answer.text.count("<script") == len(
            re.findall('<script( type="module")? src="/(static|invoicing)/', answer.text)
        )
        assert answer.headers["Cache-Control"] == "no-store"
