"""The Django app."""

from django.apps import AppConfig


class TurnoConfig(AppConfig):  # type: ignore[misc]  # Django has no types
    """Adds the command `manage.py turno`."""

    name = "turno.contrib.django"
    label = "turno"
    verbose_name = "Turno"
