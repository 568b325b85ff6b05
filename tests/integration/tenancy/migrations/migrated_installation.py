"""An installation with three tenants and a test's migrations."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from turno.capability import LIBRARY
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.tenant import Tenant
from turno.tenancy.provisioning.install import install
from turno.tenancy.provisioning.provision import add_company, add_tenant
from turno.tenancy.schema_migrations.all_schemas import migrate, rollback, status
from turno.tenancy.schema_migrations.files import Migrations
from turno.tenancy.schema_migrations.one_schema import Outcome

KEY = b"the tests' own master key, 32 or more"


PACKAGED = Path(__file__).resolve().parents[4] / "turno" / "migrations"


SLUGS = ["suc0001", "suc0002", "suc0003"]


WIDGETS = "CREATE TABLE widgets (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text);"


@dataclass
class MigratedInstallation:
    """An installation with three tenants, and a separate folder of migrations to add to."""

    url: str
    folder: Path
    logins: Logins
    admin: psycopg.Connection[Any]
    tenants: list[Tenant]

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.url, autocommit=True)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    @property
    def migrations(self) -> Migrations:
        application = self.folder / "application"
        return Migrations.read(self.folder, application if application.exists() else None)

    def migrate(self, **options: Any) -> list[Outcome]:
        return migrate(self.connect, self.logins, migrations=self.migrations, **options)

    def rollback(self, **options: Any) -> list[Outcome]:
        return rollback(self.connect, self.logins, migrations=self.migrations, **options)

    def versions(self) -> dict[str, int]:
        result = status(self.admin, self.logins, migrations=self.migrations)
        return {state.slug: state.at for state in result if state.source == LIBRARY}

    def application_versions(self) -> dict[str, int]:
        result = status(self.admin, self.logins, migrations=self.migrations)
        return {state.slug: state.at for state in result if state.source != LIBRARY}

    def in_schema(self, tenant: Tenant, statement: Any) -> psycopg.Cursor[Any]:
        with self.admin.transaction():
            self.admin.execute(sql.SQL("SET LOCAL search_path = {}").format(sql.Identifier(tenant.schema)))
            return self.admin.execute(self.migrations.tenant.in_schema(statement, tenant.schema).encode())


def set_up(installation: MigratedInstallation) -> None:
    """Install, and add the tenants."""
    install(installation.admin, installation.logins, migrations=installation.migrations)
    add_company(installation.admin, installation.logins, "acme", "Acme")
    for slug in SLUGS:
        installation.tenants.append(
            add_tenant(installation.admin, installation.logins, slug, "acme", migrations=installation.migrations)
        )
