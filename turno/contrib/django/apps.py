"""The Django app."""

from django.apps import AppConfig
from django.core.checks import register


class TurnoConfig(AppConfig):  # type: ignore[misc]  # Django has no types
    """Adds the command `manage.py turno` and the system checks."""

    name = "turno.contrib.django"
    label = "turno"
    verbose_name = "Turno"

    def ready(self) -> None:
        """Register the checks."""
        from turno.contrib.django import checks  # noqa: PLC0415 - it needs the models of all apps

        register(checks.check_databases, checks.TAG)
        register(checks.check_handlers, checks.TAG)
