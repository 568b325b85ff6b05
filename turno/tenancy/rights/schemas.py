"""Which schemas there are, who owns each, and which role plays which part in it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.tenant import Tenant
from turno.tenancy.rights.grants import CONTROL, TENANT, Matrix, Role

CONTROL_SCHEMA = "turno"
# What every function's path is pinned to: temporary objects come last, or they would shadow ours.
PATH = "{}, pg_temp"


@dataclass(frozen=True, slots=True)
class Schema:
    """One schema of this installation. `slug` is its tenant's, or empty for the control schema."""

    name: str
    slug: str
    owner: str
    matrix: Matrix
    roles: Mapping[Role, str]

    @property
    def path(self) -> str:
        """The search_path of its migrations and of its functions."""
        return PATH.format(self.name)


def control_schema(logins: Logins) -> Schema:
    """Return the schema that every tenant shares."""
    roles = {
        Role.OWNERS: logins.owners,
        Role.ENGINE: logins.engine,
        Role.WEB: logins.web,
        Role.OPERATOR: logins.operator,
        Role.HOST: logins.host,
    }
    return Schema(CONTROL_SCHEMA, "", logins.control, CONTROL, roles)


def tenant_schemas(admin: Connection[Any], logins: Logins, *, state: str = "active") -> list[Schema]:
    """Return the tenants' schemas in this state, in the order the tenants came."""
    rows = admin.execute(_SCHEMAS + "WHERE n.state = %s ORDER BY n.id", [state])
    return [_tenant_schema(logins, row) for row in rows]


def tenant_schema(admin: Connection[Any], logins: Logins, tenant: Tenant) -> Schema:
    """Return one tenant's schema, whatever state it is in."""
    (row,) = admin.execute(_SCHEMAS + "WHERE n.id = %s", [tenant.id])
    return _tenant_schema(logins, row)


_SCHEMAS = """
SELECT n.schema, n.slug, n.owner_role, n.handler_role, n.api_role, c.report_role
FROM turno.tenants n JOIN turno.companies c ON c.id = n.company_id
"""


def _tenant_schema(logins: Logins, row: TupleRow) -> Schema:
    name, slug, owner, handler, api, report = row
    roles = {
        Role.HANDLER: handler,
        Role.API: api,
        Role.REPORT: report,
        Role.ENGINE: logins.engine,
        Role.CONTROL: logins.control,
    }
    return Schema(name, slug, owner, TENANT, roles)
