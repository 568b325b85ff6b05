"""A model of Django on the customers of the example, and the settings of Django for the tests."""

import django
from django.conf import settings
from django.db import models

if not settings.configured:
    # No server: work that leaves the connection of the job fails.
    nowhere = {"ENGINE": "django.db.backends.postgresql", "NAME": "nowhere", "HOST": "127.0.0.1", "PORT": "1"}
    settings.configure(
        DATABASES={"default": nowhere},
        INSTALLED_APPS=["django.contrib.contenttypes", "turno.contrib.django"],
        LOGGING_CONFIG=None,
        USE_TZ=True,
    )
    django.setup()


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
