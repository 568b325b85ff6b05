"""The link from the admin of Django to the pages of Turno."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import NoReverseMatch, reverse

from turno.contrib.django.models import Job


@admin.register(Job)
class JobAdmin(admin.ModelAdmin):  # type: ignore[misc]  # Django has no types
    """A line that leads to the pages, if the project has their URLs; the pages check the user themselves."""

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002 - of Django
        """Return whether the project has the URLs of the pages."""
        try:
            return bool(reverse("turno:pages", args=[""]))
        except NoReverseMatch:
            return False

    has_module_permission = has_view_permission

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:  # noqa: ARG002
        """Redirect to the pages."""
        return redirect("turno:pages", path="")
