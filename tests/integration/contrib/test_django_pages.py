"""A view of Django serves the WSGI application of Turno, under servers of WSGI and ASGI."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.test import AsyncClient, Client
from django.test.utils import override_settings
from django.urls import path, reverse
from flask import Flask, Response, jsonify, request

from turno import Principal
from turno.contrib.django.pages import DjangoPages, signed_in, turno_pages
from turno.settings import Settings
from turno.wiring.mounted import PRINCIPAL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

MOST = Settings().limits.body_bytes
PART = b"x" * 200_000
OF_THE_PROJECT = override_settings(
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["testserver"],
    SECURE_PROXY_SSL_HEADER=("HTTP_X_FORWARDED_PROTO", "https"),
    MIDDLEWARE=["django.middleware.gzip.GZipMiddleware", "django.middleware.csrf.CsrfViewMiddleware"],
)


def ana(asked: HttpRequest) -> Principal | None:
    return None if "nobody" in asked.GET else Principal(user="ana", tenants=["north"])


urlpatterns = [path("erp/jobs/", turno_pages(principal=ana))]


class Parts:
    """A body in parts, which notes that it is closed."""

    closed = 0

    def __init__(self, *parts: bytes) -> None:
        self.parts = parts

    def __iter__(self) -> Iterator[bytes]:
        yield from self.parts

    def close(self) -> None:
        Parts.closed += 1


class Events(Parts):
    """A live body."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self.parts:
            yield part
            await asyncio.sleep(0)


def flask_app(_pages: DjangoPages, root: str) -> Flask:
    """Stand in for the application of Turno."""
    app = Flask("tests")
    app.config["MAX_CONTENT_LENGTH"] = MOST

    @app.post("/echo/<name>")
    def echo(name: str) -> Response:
        user: Principal | None = request.environ[PRINCIPAL]
        response = jsonify(
            name=name, root=root, url=request.url, body=request.get_data(as_text=True), user=user and user.user
        )
        response.set_cookie("language", "es", httponly=True, samesite="Lax")
        response.set_cookie("view", "all")
        return response

    bodies = {"events": Events(b"one,", b"two"), "file": Parts(*[PART] * 3)}
    app.add_url_rule("/<body>", "body", view_func=lambda body: Response(bodies[body], direct_passthrough=True))
    return app


class Reply(NamedTuple):
    """A response that was read to its end."""

    status: int
    headers: Any
    cookies: Any
    body: bytes


def by_wsgi(method: str, address: str, **options: Any) -> Reply:
    response = Client(enforce_csrf_checks=True).generic(method, address, **options)
    body = b"".join(response.streaming_content) if response.streaming else response.content
    response.close()
    return Reply(response.status_code, response.headers, response.cookies, body)


def by_asgi(method: str, address: str, **options: Any) -> Reply:
    async def request_it() -> Reply:
        client = AsyncClient(enforce_csrf_checks=True)
        response = await client.generic(method, address, **options)
        body = b"".join([part async for part in response]) if response.streaming else response.content
        response.close()
        return Reply(response.status_code, response.headers, response.cookies, body)

    with ThreadPoolExecutor(1) as thread:  # the handlers of signals belong to the main thread
        return thread.submit(asyncio.run, request_it()).result()


servers = pytest.mark.parametrize("send", [by_wsgi, by_asgi], ids=["wsgi", "asgi"])


@pytest.fixture(autouse=True)
def project(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(DjangoPages, "_built", flask_app)
    Parts.closed = 0
    with OF_THE_PROJECT:
        yield


@servers
def test_a_request_reaches_turno_below_its_prefix(send: Callable[..., Reply]) -> None:
    sent = {
        "data": "b=1",
        "content_type": "text/plain",
        "headers": {"X-Forwarded-Proto": "https"},
    }
    reply = send("POST", "/erp/jobs/echo/a%20b?a=2", **sent)
    assert (reply.status, reply.headers["Content-Type"]) == (200, "application/json")
    assert reply.body.decode().strip().replace(":80/", "/") == (
        '{"body":"b=1","name":"a b","root":"/erp/jobs","url":"https://testserver/erp/jobs/echo/a%20b?a=2","user":"ana"}'
    )
    assert {name: cookie.value for name, cookie in reply.cookies.items()} == {"language": "es", "view": "all"}
    assert (reply.cookies["language"]["samesite"], reply.cookies["language"]["httponly"]) == ("Lax", True)
    assert b'"user":null' in send("POST", "/erp/jobs/echo/a%20b?nobody").body
    assert b'"name":"\\u00e9"' in by_wsgi("POST", "/erp/jobs/echo/%C3%A9").body
    assert reverse("turno:pages", args=["jobs/7"]) == "/erp/jobs/jobs/7"


@servers
def test_a_larger_body_or_another_host_is_refused(send: Callable[..., Reply]) -> None:
    assert send("POST", "/erp/jobs/echo/a%20b", data=b"x" * (MOST + 2)).status == 413
    assert send("POST", "/erp/jobs/echo/a%20b", headers={"Host": "evil.example"}).status == 400


@servers
def test_events_are_not_compressed_and_the_body_is_closed(send: Callable[..., Reply]) -> None:
    reply = send("GET", "/erp/jobs/events", headers={"Accept-Encoding": "gzip"})
    assert (reply.body, reply.headers["Content-Encoding"]) == (b"one,two", "identity")
    assert Parts.closed == 1


@servers
def test_a_large_body_is_sent_in_parts(send: Callable[..., Reply]) -> None:
    assert send("GET", "/erp/jobs/file").body == PART * 3
    assert Parts.closed == 1


def asked(**fields: Any) -> Any:
    return SimpleNamespace(tenant=SimpleNamespace(schema_name="suc0001"), **fields)


def user(label: str) -> Any:
    """Return a signed-in user, in a model of this app."""
    meta = SimpleNamespace(app_label=label, model_name="user")
    return SimpleNamespace(
        is_authenticated=True, _meta=meta, _state=SimpleNamespace(db="default"), get_username=lambda: "ana"
    )


class Shared:
    """Stand in for the router of django-tenants in the schema of a tenant."""

    def allow_migrate(self, _db: str, app_label: str, **_: Any) -> bool:
        return app_label != "shared"


def test_user_and_tenant_of_django_become_those_of_turno(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django.db.router.routers", [Shared()])
    principal = signed_in(asked(user=user("own")))
    assert principal is not None
    assert (principal.user, [*principal.tenants], principal.operator) == ("ana", ["suc0001"], False)
    assert signed_in(asked(user=SimpleNamespace(is_authenticated=False))) is None
    with pytest.raises(ImproperlyConfigured, match="may sign in to each tenant: give turno_pages"):
        signed_in(asked(user=user("shared")))
    with pytest.raises(ImproperlyConfigured, match="add both to MIDDLEWARE, or give turno_pages"):
        signed_in(asked())
