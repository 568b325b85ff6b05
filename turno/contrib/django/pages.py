"""Turno's API, pages and streams among the URLs of a Django project, for the users who are signed in there."""

from __future__ import annotations

import asyncio
import weakref
from functools import partial
from io import BytesIO
from itertools import chain
from typing import TYPE_CHECKING, Any

from asgiref.sync import async_to_sync
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, router, transaction
from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import resolve_url
from django.urls import re_path
from django.views.decorators.csrf import csrf_exempt

from turno import Principal
from turno.environment import read_settings
from turno.http_server.front import WsgiResponse, environ_of
from turno.http_server.request_threads import RequestThreads
from turno.wiring.mounted import PRINCIPAL, Mounted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from django.http import HttpRequest

    from turno.settings import Settings

    AskPrincipal = Callable[[HttpRequest], Principal | None]


def signed_in(request: HttpRequest) -> Principal | None:
    """Return the signed-in user of Django, whose only tenant is that of django-tenants."""
    remedy = "give turno_pages(principal=...) a function that returns the user of a request and the permitted tenants"
    if not (hasattr(request, "user") and hasattr(request, "tenant")):
        raise ImproperlyConfigured(
            "turno_pages() needs the user of AuthenticationMiddleware and the tenant of TenantMainMiddleware of"
            f" django-tenants: add both to MIDDLEWARE, or {remedy}"
        )
    if not request.user.is_authenticated:
        return None
    if not router.allow_migrate_model(request.user._state.db, request.user):  # noqa: SLF001 - Django has no other name
        raise ImproperlyConfigured(f"users outside of TENANT_APPS may sign in to each tenant: {remedy}")
    return Principal(user=request.user.get_username(), tenants=[request.tenant.schema_name])


def turno_pages(principal: AskPrincipal = signed_in) -> tuple[Any, str, str]:
    """Return the URLs of Turno, for `urls.py` of a project.

    The line is `path("jobs/", turno_pages())`. `principal` returns the signed-in user of a request, or None; a page
    then redirects to LOGIN_URL. The first request reads the settings of Turno from the environment.
    """
    mounted: list[DjangoPages] = []

    def pages(request: HttpRequest, path: str) -> HttpResponse | StreamingHttpResponse:
        if not mounted:
            mounted.append(DjangoPages(sign_in=resolve_url(settings.LOGIN_URL), settings=read_settings(dotenv=False)))
        return mounted[0].respond(request, path, principal(request))

    # Turno checks the user, the origin of each change, and the tokens of its own forms.
    view = csrf_exempt(login_not_required(transaction.non_atomic_requests(pages)))
    return [re_path("^(?P<path>.*)$", view, name="pages")], "turno", "turno"


class DjangoPages(Mounted):
    """The WSGI application of Turno as a view of Django, on servers of WSGI and ASGI."""

    def __init__(self, *, sign_in: str, settings: Settings) -> None:
        super().__init__(sign_in=sign_in, settings=settings)
        self._limits = settings.limits
        self._threads = RequestThreads(settings.web_threads)  # of an ASGI server

    def respond(self, request: HttpRequest, path: str, user: Principal | None) -> HttpResponse | StreamingHttpResponse:
        """Return the response to a request for an address below the prefix of the view."""
        body = request.read(self._limits.body_bytes + 1)  # a larger body is refused
        scope = getattr(request, "scope", None)
        environ = {
            **(environ_of({**scope, "query_string": b""}, body, complete=True, trusted=()) if scope else request.META),
            "QUERY_STRING": request.META["QUERY_STRING"],  # of a test client it is no bytes in the scope
            "SCRIPT_NAME": request.path.removesuffix(path).rstrip("/").encode().decode("latin-1"),
            "PATH_INFO": f"/{path}".encode().decode("latin-1"),
            "HTTP_HOST": request.get_host(),
            "wsgi.url_scheme": request.scheme,
            "wsgi.input": BytesIO(body),
            PRINCIPAL: user,
        }
        if scope:
            _close_connections()
            response, first, parts = async_to_sync(self._begin)(environ)
            return _response(response, first, _chain(first, parts))
        response = WsgiResponse(self._wsgi, environ)
        iterator = _parts(response)
        first = next(iterator, b"")
        return _response(response, first, chain([first], iterator))

    async def _begin(self, environ: dict[str, Any]) -> tuple[WsgiResponse, bytes, AsyncIterator[bytes]]:
        self._watch_signals(asyncio.get_running_loop())
        response = await self._threads.respond(partial(WsgiResponse, self._wsgi), environ)
        parts = aiter(response.body) if response.asynchronous else self._read(response)
        return response, await anext(parts, b""), parts

    async def _read(self, response: WsgiResponse) -> AsyncIterator[bytes]:
        yield response.part
        while not response.over:
            await self._threads.run(response.read)
            yield response.part


def _parts(response: WsgiResponse) -> Iterator[bytes]:
    if response.asynchronous:
        yield from response.body
        return
    yield response.part
    while not response.over:
        response.read()
        yield response.part


async def _chain(first: bytes, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for part in parts:
        yield part


def _close_connections() -> None:
    """Close the connections of Django in this thread, which a stream would hold until its end."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()


def _end(response: WsgiResponse) -> None:
    if not response.over:
        response.close()


def _response(response: WsgiResponse, first: bytes, parts: Any) -> HttpResponse | StreamingHttpResponse:
    """Return a response of Django; its end, also by a client that leaves, closes the response of Turno."""
    start = response.start(closes=False)  # the first part of a live response decides on its status
    if response.over:
        result = HttpResponse(first, status=start["status"])
    else:
        result = StreamingHttpResponse(parts, status=start["status"])
        result._resource_closers.append(weakref.finalize(result, _end, response))  # noqa: SLF001 - as for the content
        if response.asynchronous:
            result["Content-Encoding"] = "identity"  # GZipMiddleware would hold events back
    del result["Content-Type"]
    for name, value in ((name.decode("latin-1"), value.decode("latin-1")) for name, value in start["headers"]):
        if name == "set-cookie":
            result.cookies.load(value)
        else:
            result[name] = value
    return result
