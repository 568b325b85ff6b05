"""A model of Django on the customers of the example."""

from django.db import models


class Customer(models.Model):  # type: ignore[misc]
    """A customer of the example."""

    id = models.CharField(primary_key=True, max_length=5)
    company_name = models.TextField()
    tax_condition = models.TextField(default="registered")
    country = models.TextField(default="django")

    class Meta:
        app_label = "turno"
        db_table = "customers"
        managed = False

    def __str__(self) -> str:
        return str(self.company_name)
