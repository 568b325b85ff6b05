"""TURNO_PUBLIC_URL and TURNO_TRUSTED_PROXIES: cookies, the sign-in and accepted hosts behind a TLS proxy."""

from __future__ import annotations

from ipaddress import ip_network
from typing import TYPE_CHECKING, Any

import pytest

from tests.api import KEY
from tests.problems import problem_of
from tests.visitor import Visitor
from turno.errors import InvalidSettings
from turno.http_server.front import environ_of
from turno.settings import Settings

if TYPE_CHECKING:
    from flask import Flask

    from tests.api import Service

PUBLIC = "https://turno.example"


@pytest.fixture(scope="module")
def public(service: Service) -> Flask:
    return service.build(settings=Settings(jwt_key=KEY, public_url=PUBLIC))


def over_http(app: Flask) -> Visitor:
    """A client with TLS up to an untrusted proxy: the web received the request over HTTP."""
    return Visitor(app, base_url="http://turno.example")


def test_a_session_begins_over_https_alone(public: Flask) -> None:
    refused = over_http(public).sign_in("ana", "north")
    assert (refused.status_code, "Set-Cookie" in refused.headers) == (403, False)
    assert "Open this page with https://" in refused.text
    assert Visitor(public, base_url=PUBLIC).sign_in("ana", "north").headers["Set-Cookie"].startswith("__Host-turno=")


def test_cookies_are_secure_and_hsts_is_sent(public: Flask) -> None:
    visitor = over_http(public)
    reply = visitor.get("/?lang=es")
    assert "Secure" in reply.headers["Set-Cookie"]
    assert reply.headers["Strict-Transport-Security"].startswith("max-age=")
    gone = visitor.post("/sign-out", {}).headers["Set-Cookie"]
    assert gone.startswith("__Host-turno=;")
    assert "Secure" in gone


def test_foreign_host_does_not_count_as_ours(public: Flask) -> None:
    rebound = Visitor(public, base_url="https://evil.example")
    own = {"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"}
    for answer in (rebound.get("/"), rebound.get("/api/jobs"), rebound.post("/sign-in", {"token": "x"}, headers=own)):
        assert PUBLIC in problem_of(answer, 400)["detail"]
    assert Visitor(public, base_url="https://turno.example:8443").get("/").status_code == 200


def test_probe_may_use_any_host_name(public: Flask) -> None:
    for path in ("/healthz", "/readyz"):
        assert Visitor(public, base_url="http://10.1.2.3:8080").get(path).status_code == 200


def test_metrics_by_process_address_need_their_token(public: Flask) -> None:
    assert Visitor(public, base_url="http://10.1.2.3:8080").get("/metrics").status_code == 401


def environ_for(proxies: str, peer: str, **headers: str) -> dict[str, Any]:
    """Return the environment of a request from this peer."""
    trusted = [ip_network(proxy) for proxy in Settings.read({"TURNO_TRUSTED_PROXIES": proxies}).trusted_proxies]
    scope = {
        "method": "GET",
        "path": "/",
        "query_string": b"",
        "http_version": "1.1",
        "scheme": "http",
        "server": ("10.0.0.1", 8080),
        "client": (peer, 1234),
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }
    return environ_of(scope, b"", complete=True, trusted=trusted)


@pytest.mark.parametrize(
    ("peer", "scheme"), [("10.1.2.3", "https"), ("10.2.0.1", "https"), ("10.3.0.1", "http"), ("127.0.0.1", "http")]
)
def test_only_named_proxies_are_trusted(peer: str, scheme: str) -> None:
    read = environ_for("10.1.2.3, 10.2.0.0/16", peer, **{"X-Forwarded-Proto": "https", "SCRIPT_NAME": "/evil"})
    assert read["wsgi.url_scheme"] == scheme
    assert "/evil" not in map(str, read.values())


def test_forwarded_client_header_sets_no_scheme() -> None:
    reply = {"X-Forwarded-Ssl": "on", "X-Forwarded-Protocol": "ssl"}
    assert environ_for("10.1.2.3", "10.1.2.3", **reply)["wsgi.url_scheme"] == "http"


@pytest.mark.parametrize(
    "wrong",
    [
        {"TURNO_PUBLIC_URL": "turno.example"},
        {"TURNO_PUBLIC_URL": "https://turno.example/"},
        {"TURNO_PUBLIC_URL": "https://turno.example/turno/"},
        {"TURNO_PUBLIC_URL": "https://turno.example/turno?x=1"},
        {"TURNO_TRUSTED_PROXIES": "*"},
        {"TURNO_TRUSTED_PROXIES": "proxy.internal"},
        {"TURNO_TRUSTED_PROXIES": "10.1.2.3/8"},
    ],
)
def test_address_is_written_in_its_compared_form(wrong: dict[str, str]) -> None:
    with pytest.raises(InvalidSettings, match=next(iter(wrong))):
        Settings.read(wrong)
