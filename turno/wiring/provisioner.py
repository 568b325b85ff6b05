"""Log in as the provisioner: the one who makes roles, schemas and tenants, and with which migrations."""

from pathlib import Path

import psycopg

from turno.errors import InvalidSettings
from turno.settings import Settings
from turno.tenancy.identity.session import CONNECT_TIMEOUT
from turno.tenancy.schema_migrations.fan_out import Connect
from turno.tenancy.schema_migrations.files import Migrations, packaged


def provisioner(settings: Settings) -> Connect:
    """Return what opens the provisioner's sessions, in autocommit; raises InvalidSettings without a URL."""
    settings.require("database_url")
    return lambda: psycopg.connect(
        settings.provisioner_url, autocommit=True, connect_timeout=CONNECT_TIMEOUT, application_name="turno-admin"
    )


def migrations(settings: Settings) -> Migrations:
    """Return the migrations of this release and of the application; raises InvalidSettings where its are not."""
    folder = Path(settings.migrations) if settings.migrations else None
    if folder is not None and not folder.is_dir():
        raise InvalidSettings([f"MIGRATIONS={settings.migrations}: there is no such folder"])
    return packaged(folder)
