"""An ERP in Django that was there before: its own login, sessions and errors, in which Turno is mounted."""

from __future__ import annotations

import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path

from tests.mounting_host import MOUNTED

settings.configure(
    ALLOWED_HOSTS=["127.0.0.1"],
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware", "django.middleware.gzip.GZipMiddleware"],
    ROOT_URLCONF=__name__,
    SECRET_KEY="the ERP's own key",
    SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies",
    LOGGING_CONFIG=None,
)
django.setup()

from turno import Principal  # noqa: E402 - after the settings
from turno.contrib.django.pages import turno_pages  # noqa: E402


def signed_in(request: HttpRequest) -> Principal | None:
    """Return the ERP's signed-in user, by its own session."""
    session = request.session
    return Principal(user=session["user"], tenants=session["branches"]) if "user" in session else None


def login(request: HttpRequest) -> HttpResponse:
    """Sign in anybody."""
    request.session.update({"user": request.POST["user"], "branches": request.POST.getlist("branch")})
    return HttpResponse("welcome")


def nowhere(_request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001 - of Django
    """Answer an unknown address."""
    return HttpResponse("the ERP knows no such page", status=404)


handler404 = nowhere
urlpatterns = [
    path("login", login),
    path(f"{MOUNTED['url_prefix'].strip('/')}/", turno_pages(principal=signed_in)),
]
asgi = get_asgi_application()
wsgi = get_wsgi_application()
