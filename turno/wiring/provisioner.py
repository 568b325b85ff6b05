"""Log in as the provisioner: the one who makes roles, schemas and tenants."""

import psycopg

from turno.settings import Settings
from turno.tenancy.identity.session import CONNECT_TIMEOUT
from turno.tenancy.schema_migrations.fan_out import Connect


def provisioner(settings: Settings) -> Connect:
    """Return what opens the provisioner's sessions, in autocommit; raises InvalidSettings without a URL."""
    settings.require("database_url")
    return lambda: psycopg.connect(
        settings.provisioner_url, autocommit=True, connect_timeout=CONNECT_TIMEOUT, application_name="turno-admin"
    )
