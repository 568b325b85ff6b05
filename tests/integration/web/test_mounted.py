"""Turno mounted in an application that was there before: below its prefix, with its login, and nowhere else."""

from __future__ import annotations

import json
import os
import re
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from werkzeug.middleware.proxy_fix import ProxyFix

from tests.api import SETTINGS, in_an_hour
from tests.greetings import valid_body
from tests.mounting_host import MOUNTED, host, signed_in
from tests.problems import problem_of
from turno.http_server.request_threads import THREAD_SHARES, ThreadShares
from turno.settings import Limits, Settings
from turno.web.auth import Principal
from turno.web.pages.drawing import POLICY_IN_A_LAYOUT

if TYPE_CHECKING:
    from collections.abc import Callable

    from flask import Flask
    from flask.testing import FlaskClient
    from werkzeug.test import TestResponse

    from tests.api import Service

AT = MOUNTED["url_prefix"]
OURS = {"Sec-Fetch-Site": "same-origin"}
NORTH = {"X-Schema": "north"}
FOREIGN = [{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "https://evil.example"}, {}]


def mounted(service: Service, **changed: Any) -> Flask:
    app: Flask = service.build(host=host(), **{"principal": signed_in, "pages": ()} | MOUNTED | changed)
    return app


@pytest.fixture(scope="module")
def erp(service: Service) -> Flask:
    return mounted(service)


def browser(app: Flask, **fields: Any) -> FlaskClient:
    """A signed-in user of the ERP; each is a new user, unless named."""
    client = app.test_client()
    signed = client.post("/login", data={"user": f"user-{uuid.uuid4().hex[:8]}", "branch": ["north"]} | fields)
    assert signed.text == "welcome"
    return client


def submit(client: FlaskClient, headers: dict[str, str], at: str = AT) -> Any:
    return client.post(f"{at}/api/jobs/greetings", json=valid_body(), headers=NORTH | headers)


def addresses(page: str) -> set[str]:
    return {
        address
        for address in re.findall(r'(?:href|src|action)="([^"#][^"]*)"', page)
        if not address.startswith("/host.css")
    }


# Authentication ---------------------------------------------------------------------------------------


def test_the_host_s_login_opens_the_api_and_the_pages(erp: Flask) -> None:
    ana = browser(erp, user="ana of the ERP")
    accepted = submit(ana, OURS)
    assert accepted.status_code == 202
    job = ana.get(accepted.headers["Location"], headers=NORTH).get_json()
    assert job["user"] == "ana of the ERP"
    assert job["job_id"] in ana.get(f"{AT}/").text
    assert submit(browser(erp, branch=["south"]), OURS).status_code == 404


def test_anonymous_is_refused_or_led_to_the_host_sign_in(erp: Flask) -> None:
    nobody = erp.test_client()
    problem_of(submit(nobody, OURS), 401)
    led = nobody.get(f"{AT}/?show=failed")
    assert (led.status_code, led.headers["Location"]) == (303, "/login?next=%2Fwork%2Fjobs%2F%3Fshow%3Dfailed")
    for path in ("/sign-in", "/sign-out", "/sign-in/demo"):
        assert nobody.post(AT + path, headers=OURS).status_code == 404


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_foreign_site_changes_nothing_with_the_host_cookie(
    service: Service, erp: Flask, headers: dict[str, str]
) -> None:
    ana = browser(erp)
    job = submit(ana, OURS).get_json()["job_id"]
    form = {"branch": "north", "on": "job", "form": form_token(ana)}
    before = service.everything()
    problem_of(submit(ana, headers), 403)
    problem_of(submit(ana, headers | {"Authorization": "Basic YW5hOnNlY3JldA=="}), 403)
    problem_of(submit(ana, headers | {"Authorization": "Bearer x"}), 403)
    problem_of(ana.post(f"{AT}/api/jobs/{job}/cancel", headers=NORTH | headers), 403)
    assert ana.post(f"{AT}/jobs/{job}/cancel", data=form, headers=headers).status_code == 403
    assert service.everything() == before
    assert ana.post(f"{AT}/jobs/{job}/cancel", data=form, headers=OURS).status_code == 303


def cookie_of(client: FlaskClient) -> str:
    cookie = client.get_cookie("session")
    assert cookie is not None
    return cookie.value


def form_token(client: FlaskClient) -> str:
    result: list[str] = re.findall(r'name="form" value="(\w{64})"', client.get(f"{AT}/").text)
    return result[0]


def test_a_form_carries_a_token_that_is_its_user_s_own(service: Service, erp: Flask) -> None:
    ana, bob = browser(erp), browser(erp, user="bob")
    job = submit(ana, OURS).get_json()["job_id"]
    submit(bob, OURS)
    for token in ("", "x", form_token(bob)):
        sent = {"branch": "north", "form": token}
        assert ana.post(f"{AT}/jobs/{job}/cancel", data=sent, headers=OURS).status_code == 403
    keyed = mounted(service, settings=Settings(master_key="another installation's")).test_client()
    keyed.set_cookie("session", cookie_of(ana))
    assert form_token(keyed) != form_token(ana), "the installation's key is in it"


def test_host_bearer_token_needs_no_origin(service: Service) -> None:
    app = mounted(service, principal=lambda requested: bearer(requested.headers.get("Authorization")))
    assert submit(app.test_client(), {"Authorization": "Bearer the host's own"}).status_code == 202
    problem_of(submit(app.test_client(), {"Authorization": "Bearer guessed"}), 401)


def bearer(header: str | None) -> Principal | None:
    return Principal(user="a program", tenants=["north"]) if header == "Bearer the host's own" else None


def test_only_host_operator_sees_all_users(erp: Flask) -> None:
    job = submit(browser(erp), OURS).get_json()["job_id"]
    admin, bob = browser(erp, user="admin", admin="yes"), browser(erp, user="bob")
    assert admin.get(f"{AT}/api/jobs/{job}", headers=NORTH).status_code == 200
    assert admin.get(f"{AT}/api/admin/dead-letters", headers=NORTH).status_code == 200
    problem_of(bob.get(f"{AT}/api/jobs/{job}", headers=NORTH), 404)
    problem_of(bob.get(f"{AT}/api/admin/dead-letters", headers=NORTH), 403)


def test_unstorable_principal_is_refused_at_construction() -> None:
    for user in ("", "x" * 256, "a\nb", "a\0"):
        with pytest.raises(ValueError, match="1 to 255 printable"):
            Principal(user=user, tenants=["north"])
    with pytest.raises(TypeError, match="list of names"):
        Principal(user="ana", tenants="north")


def test_a_response_that_the_principal_raises_is_the_answer(service: Service) -> None:
    from flask import abort, redirect  # noqa: PLC0415

    app = mounted(service, principal=lambda _requested: abort(redirect("/two-factors")))
    assert app.test_client().get(f"{AT}/").headers["Location"] == "/two-factors"


# Where it is ------------------------------------------------------------------------------------------


def test_every_address_begins_with_the_prefix(erp: Flask) -> None:
    ana = browser(erp)
    accepted = submit(ana, OURS)
    job = accepted.get_json()["job_id"]
    assert accepted.headers["Location"].startswith(f"{AT}/api/jobs/")
    assert all(link.startswith(f"{AT}/api/") for link in accepted.get_json()["links"].values())
    for path in ("/", f"/jobs/{job}", "/notifications", "/docs", f"/?open={job}", "/jobs/x"):
        page = ana.get(AT + path).text
        result = addresses(page)
        assert result
        assert {address for address in result if not address.startswith(f"{AT}/")} == set()
        assert 'data-base="/work/jobs"' in page or path in ("/docs", "/jobs/x")
    for address in addresses(ana.get(f"{AT}/").text):
        if "/static/" in address:
            with ana.get(address) as file:
                assert file.status_code == 200
    reply = problem_of(ana.get(f"{AT}/api/jobs/x", headers=NORTH), 404)
    assert reply["type"] == f"{AT}/docs#not-found"
    document = ana.get(f"{AT}/openapi.json").get_json()
    assert document["servers"] == [{"url": AT}]
    assert "/api/jobs/greetings" in document["paths"]
    assert ana.get(AT).headers["Location"].endswith(f"{AT}/")


def test_behind_a_proxy_that_is_believed_by_the_host(service: Service) -> None:
    app = mounted(service)
    app.wsgi_app = ProxyFix(app.wsgi_app, x_proto=1, x_host=1, x_prefix=1)  # type: ignore[method-assign]
    forwarded = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "erp.example", "X-Forwarded-Prefix": "/erp"}
    ana = browser(app)
    own = forwarded | {"Origin": "https://erp.example"}
    accepted = submit(ana, own)
    assert accepted.headers["Location"].startswith(f"/erp{AT}/api/jobs/")
    problem_of(submit(ana, forwarded | {"Origin": "http://localhost"}), 403)
    page = ana.get(f"{AT}/?lang=es", headers=forwarded)
    assert {address for address in addresses(page.text) if not address.startswith(f"/erp{AT}/")} == set()
    cookie = page.headers["Set-Cookie"]
    assert f"Path=/erp{AT}/" in cookie
    assert "Secure" in cookie
    assert page.headers["Strict-Transport-Security"]
    assert ana.get(f"{AT}/openapi.json", headers=forwarded).get_json()["servers"] == [{"url": f"/erp{AT}"}]


def test_path_of_public_url_prefixes_every_address(service: Service) -> None:
    app = service.build(settings=Settings(jwt_key=SETTINGS.jwt_key, public_url="https://erp.example/turno"))
    answer = app.test_client().get("/", base_url="https://erp.example")
    assert {address for address in addresses(answer.text) if not address.startswith("/turno/")} == set()
    signed = app.test_client().post(
        "/sign-in", data={"token": service.caller().headers["Authorization"].split()[1]}, headers=OURS,
        base_url="https://erp.example",
    )  # fmt: skip
    assert signed.headers["Location"] == "/turno/"
    assert signed.headers["Set-Cookie"].startswith("__Host-turno-turno=")
    assert "Path=/;" in signed.headers["Set-Cookie"]
    problem_of(app.test_client().get("/", base_url="https://evil.example"), 400)


@pytest.mark.parametrize("wrong", ["jobs", "/", "/jobs/", "//jobs", "/jobs?x", "https://erp.example/jobs"])
def test_a_prefix_is_a_path(service: Service, wrong: str) -> None:
    with pytest.raises(ValueError, match="url_prefix"):
        mounted(service, url_prefix=wrong)


# Effects on the host ----------------------------------------------------------------------------------


def test_the_host_s_routes_are_as_they_were(erp: Flask) -> None:
    plain, client = host().test_client(), browser(erp)
    requested: list[Callable[[FlaskClient], TestResponse]] = [
        lambda client: client.get("/invoices"),
        lambda client: client.get("/nowhere"),
        lambda client: client.get("/nowhere", headers={"Accept": "text/html"}),
        lambda client: client.get("//invoices"),
        lambda client: client.get("/work/other"),
        lambda client: client.post("/invoices"),
        lambda client: client.get("/broken"),
        lambda client: client.get("/forbidden"),
        lambda client: client.options("/invoices", headers={"Origin": "x", "Access-Control-Request-Method": "GET"}),
        lambda client: client.post("/upload", data=b"x" * 1_000_000),
        lambda client: client.post("/upload", data=b"x" * 6_000_000),
    ]
    for ask in requested:
        before, now = ask(plain), ask(client)
        assert (now.status_code, now.data) == (before.status_code, before.data)
        assert names(now) == names(before), "none of our headers"
    assert client.get("/invoices", base_url="http://another.example").status_code == 200


def names(answer: Any) -> set[str]:
    return set(answer.headers.keys()) - {"Vary"}


def test_of_the_host_s_hooks_and_handlers_ours_need_nothing(service: Service) -> None:
    app = mounted(service, settings=Settings(limits=Limits(body_bytes=2048)))
    ana = browser(app)
    for answer in (
        ana.get(f"{AT}/api/nowhere"),
        ana.put(f"{AT}/api/jobs", headers=NORTH),
        submit(ana, {}),
        ana.post(f"{AT}/api/jobs/greetings", data=b" " * 3000, headers=NORTH | OURS, content_type="application/json"),
        ana.get(f"{AT}/static/nothing.css"),
    ):
        reply = problem_of(answer, answer.status_code)
        assert answer.status_code in (403, 404, 405, 413)
        assert reply["type"].startswith(f"{AT}/docs#")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["X-Served-By"] == "erp", "the host's hooks after a request also run after ours"
    broken = browser(mounted(service, clock=lambda: 1 / 0))
    problem_of(broken.post(f"{AT}/api/jobs/greetings", json=valid_body() | {"run_at": in_an_hour()},
                           headers=NORTH | OURS), 500)  # fmt: skip


def test_limits_do_not_concern_the_host_s_routes(service: Service) -> None:
    settings = Settings(limits=Limits(commands_per_minute_per_user=1))
    ana, shares = browser(mounted(service, settings=settings)), ThreadShares(2)
    assert submit(ana, OURS).status_code == 202
    problem_of(submit(ana, OURS), 429)
    assert shares.take(service.tenants["north"].id)
    used_up: dict[str, Any] = {THREAD_SHARES: shares}
    problem_of(ana.get(f"{AT}/api/jobs", headers=NORTH, environ_overrides=used_up), 503)
    for _ in range(3):
        assert ana.post("/upload", data=b"x", environ_overrides=used_up).text == "1"


def test_mount_forked_after_a_request_reports_it(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    ana, pid = browser(mounted(service)), os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)
    assert "before this process was forked" in problem_of(ana.get(f"{AT}/readyz"), 503)["detail"]
    assert ana.get("/invoices").status_code == 200


# How it looks -----------------------------------------------------------------------------------------


def test_the_pages_stand_in_the_host_s_layout(erp: Flask) -> None:
    ana = browser(erp)
    job = submit(ana, OURS).get_json()["job_id"]
    for path in ("/", f"/jobs/{job}", "/notifications", "/jobs/x"):
        answer = ana.get(AT + path)
        assert "The ERP's own menu" in answer.text
        assert answer.text.count("<main") == answer.text.count("<html") == answer.text.count('id="turno"') == 1
        assert "/host.css" in answer.text
        assert f"{AT}/static/pages.css" in answer.text
        assert 'class="brand"' not in answer.text
        assert "sign-out" not in answer.text
        assert answer.headers["Content-Security-Policy"] == POLICY_IN_A_LAYOUT
        assert answer.headers["Referrer-Policy"] == "same-origin"
    assert "<title>Invoicing · north · Turno</title>" in ana.get(f"{AT}/").text


def test_page_without_the_host_sign_in_is_explained(service: Service) -> None:
    answer = mounted(service, sign_in=None).test_client().get(f"{AT}/")
    assert (answer.status_code, "You are signed out" in answer.text) == (401, True)
    assert "The ERP's own menu" in answer.text


# Streams ----------------------------------------------------------------------------------------------


def stream(client: FlaskClient) -> Any:
    return client.get(f"{AT}/api/stream?schema=north", multithread=True)


def test_streams_take_at_most_half_of_the_host_threads(service: Service) -> None:
    ana = browser(mounted(service, settings=Settings(web_threads=4)))
    opened = [stream(ana) for _ in range(2)]
    assert [answer.status_code for answer in opened] == [200, 200]
    refused = stream(ana)
    assert "Retry-After" in refused.headers
    problem_of(refused, 503)
    opened.pop().close()
    opened.append(stream(ana))
    assert opened[-1].status_code == 200
    for answer in opened:
        answer.close()


def test_on_a_server_without_threads_there_are_no_streams(service: Service) -> None:
    ana = browser(mounted(service))
    problem_of(ana.get(f"{AT}/api/stream?schema=north", multithread=False), 503)


def test_links_in_a_stream_begin_with_the_prefix(erp: Flask) -> None:
    ana = browser(erp)
    submit(ana, OURS)
    answer = stream(ana)
    event = next(chunk for chunk in answer.response if b"event:job" in chunk).decode()
    data = next(line for line in event.splitlines() if line.startswith("data:"))
    assert json.loads(data.removeprefix("data:"))["links"]["self"].startswith(f"{AT}/api/jobs/")
    answer.close()
