"""PUBLIC_URL and TRUSTED_PROXIES: what TLS in front of us means for cookies, the sign-in and the host that is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from gunicorn.http.message import Request
from gunicorn.http.unreader import IterUnreader

from tests.api import KEY
from tests.problems import problem_of
from tests.visitor import Visitor
from turno.errors import InvalidSettings
from turno.http_server.web_server import WebServer
from turno.settings import Settings

if TYPE_CHECKING:
    from flask import Flask

    from tests.api import Service

PUBLIC = "https://turno.example"


@pytest.fixture(scope="module")
def public(service: Service) -> Flask:
    return service.build(settings=Settings(jwt_key=KEY, public_url=PUBLIC))


def over_http(app: Flask) -> Visitor:
    """Someone whose TLS ends in a proxy that is not believed: to us the request came over HTTP."""
    return Visitor(app, base_url="http://turno.example")


def test_a_session_begins_over_https_alone(public: Flask) -> None:
    refused = over_http(public).sign_in("ana", "north")
    assert (refused.status_code, "Set-Cookie" in refused.headers) == (403, False)
    assert "Open this page with https://" in refused.text
    assert Visitor(public, base_url=PUBLIC).sign_in("ana", "north").headers["Set-Cookie"].startswith("__Host-turno=")


def test_every_cookie_is_secure_and_hsts_is_sent_whatever_headers_arrive(public: Flask) -> None:
    visitor = over_http(public)
    told = visitor.get("/?lang=es")
    assert "Secure" in told.headers["Set-Cookie"]
    assert told.headers["Strict-Transport-Security"].startswith("max-age=")
    gone = visitor.post("/sign-out", {}).headers["Set-Cookie"]
    assert gone.startswith("__Host-turno=;")
    assert "Secure" in gone


def test_no_other_host_counts_as_ours(public: Flask) -> None:
    rebound = Visitor(public, base_url="https://evil.example")
    own = {"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"}
    for answer in (rebound.get("/"), rebound.get("/api/jobs"), rebound.post("/sign-in", {"token": "x"}, headers=own)):
        assert PUBLIC in problem_of(answer, 400)["detail"]
    assert Visitor(public, base_url="https://turno.example:8443").get("/").status_code == 200


def test_a_probe_asks_under_any_name(public: Flask) -> None:
    for path in ("/healthz", "/readyz"):
        assert Visitor(public, base_url="http://10.1.2.3:8080").get(path).status_code == 200


def test_a_monitoring_system_asks_by_the_address_of_a_process_and_needs_its_token(public: Flask) -> None:
    assert Visitor(public, base_url="http://10.1.2.3:8080").get("/metrics").status_code == 401


@pytest.mark.parametrize(
    ("peer", "scheme"), [("10.1.2.3", "https"), ("10.2.0.1", "https"), ("10.3.0.1", "http"), ("127.0.0.1", "http")]
)
def test_the_proxies_that_are_named_are_believed_and_nobody_else(peer: str, scheme: str) -> None:
    settings = Settings.read({"TRUSTED_PROXIES": "10.1.2.3, 10.2.0.0/16"})
    head = b"GET / HTTP/1.1\r\nHost: turno.example\r\nX-Forwarded-Proto: https\r\nSCRIPT_NAME: /evil\r\n\r\n"
    read = Request(WebServer(settings).cfg, IterUnreader([head]), (peer, 1234))
    assert read.scheme == scheme
    assert "SCRIPT_NAME" not in dict(read.headers)


def test_what_a_proxy_passes_on_from_a_client_says_no_scheme() -> None:
    settings = Settings.read({"TRUSTED_PROXIES": "10.1.2.3"})
    head = b"GET / HTTP/1.1\r\nHost: turno.example\r\nX-Forwarded-Ssl: on\r\nX-Forwarded-Protocol: ssl\r\n\r\n"
    assert Request(WebServer(settings).cfg, IterUnreader([head]), ("10.1.2.3", 1234)).scheme == "http"


@pytest.mark.parametrize(
    "wrong",
    [
        {"PUBLIC_URL": "turno.example"},
        {"PUBLIC_URL": "https://turno.example/"},
        {"PUBLIC_URL": "https://turno.example/turno/"},
        {"PUBLIC_URL": "https://turno.example/turno?x=1"},
        {"TRUSTED_PROXIES": "*"},
        {"TRUSTED_PROXIES": "proxy.internal"},
        {"TRUSTED_PROXIES": "10.1.2.3/8"},
    ],
)
def test_an_address_is_written_as_it_is_compared(wrong: dict[str, str]) -> None:
    with pytest.raises(InvalidSettings, match=next(iter(wrong))):
        Settings.read(wrong)
