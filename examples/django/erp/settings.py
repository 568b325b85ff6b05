"""A small ERP with a schema for each customer, by django-tenants."""

import os

from psycopg.conninfo import conninfo_to_dict

server = conninfo_to_dict(os.environ["ERP_DATABASE_URL"])
DATABASES = {
    "default": {
        "ENGINE": "django_tenants.postgresql_backend",
        "NAME": server["dbname"],
        "USER": server.get("user"),
        "PASSWORD": server.get("password"),
        "HOST": server.get("host"),
        "PORT": server.get("port"),
    }
}
DATABASE_ROUTERS = ["django_tenants.routers.TenantSyncRouter"]
MIDDLEWARE = [
    "django_tenants.middleware.main.TenantMainMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
SHARED_APPS = [
    "django_tenants",
    "customers",
    "turno.contrib.django",
]
TENANT_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.admin",
    "sales",
]
INSTALLED_APPS = [*SHARED_APPS, *TENANT_APPS]
LOGIN_URL = "admin:login"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
STATIC_URL = "static/"
TENANT_MODEL = "customers.Customer"
TENANT_DOMAIN_MODEL = "customers.Domain"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ROOT_URLCONF = "erp.urls"
ALLOWED_HOSTS = [".localhost"]
SECRET_KEY = os.environ.get("ERP_SECRET_KEY", "only for the example")
USE_TZ = True
