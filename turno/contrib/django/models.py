"""A model without a table, by which the admin of Django has a line for the pages of Turno."""

from django.db import models


class Job(models.Model):  # type: ignore[misc]  # Django has no types
    """The jobs of Turno; the pages show them."""

    id = models.UUIDField(primary_key=True)

    class Meta:
        """No table, no permissions."""

        managed = False
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.id)
