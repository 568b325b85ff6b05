"""Compare the live catalog with the matrix of rights and the expected schemas, roles and settings."""

from typing import Any

from psycopg import Connection

from turno.tenancy.catalog.check_database import check_database
from turno.tenancy.catalog.check_roles import check_roles
from turno.tenancy.catalog.check_schemas import check_schemas
from turno.tenancy.catalog.finding import Finding
from turno.tenancy.identity.logins import Logins
from turno.tenancy.provisioning.installation import read_installation


def check(admin: Connection[Any], logins: Logins) -> list[Finding]:
    """Return all deviations of Turno's schemas, roles and database from the design; changes nothing.

    Any login that may read turno.tenants and turno.companies can ask: the catalog is open to all.
    """
    installation = read_installation(admin, logins)
    with admin.transaction():
        return [
            *check_schemas(admin, installation),
            *check_roles(admin, installation),
            *check_database(admin, installation),
        ]
