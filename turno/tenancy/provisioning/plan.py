"""Statements about roles and rights that an installation would run, from a transaction that is rolled back."""

import re
from typing import Any

import psycopg
from psycopg import sql

from turno.tenancy.identity.logins import Logins
from turno.tenancy.provisioning.install import install
from turno.tenancy.schema_migrations.files import Migrations

NOTED = re.compile(r"\s*(CREATE ROLE|ALTER ROLE|CREATE SCHEMA|GRANT|REVOKE|ALTER DEFAULT PRIVILEGES)\b", re.IGNORECASE)
SECRET = re.compile(r"PASSWORD '[^']*'")


class PlanningConnection(psycopg.Connection[Any]):
    """Records each statement that creates a role or a schema or changes a right, without its password."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.noted: list[str] = []

    def execute(self, query: Any, params: Any = None, **options: Any) -> psycopg.Cursor[Any]:
        """Run the query, one statement or several of one line each, and record such statements."""
        text = query.as_string(self) if isinstance(query, sql.Composable) else query
        if isinstance(text, str):
            for statement in filter(NOTED.match, text.split(";\n")):
                self.noted.append(SECRET.sub("PASSWORD '…'", " ".join(statement.split())))
        return super().execute(query, params, **options)


def plan_installation(admin: PlanningConnection, logins: Logins, *, migrations: Migrations | None = None) -> list[str]:
    """Return the statements in order; `admin` is idle. The transaction takes the locks of an installation."""
    admin.noted.clear()
    with admin.transaction(force_rollback=True):
        install(admin, logins, migrations=migrations)
    return list(admin.noted)
