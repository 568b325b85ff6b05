"""Configures Django: a module of django-tenants needs the settings at its import."""

import django
from django.conf import settings

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
