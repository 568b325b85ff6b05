"""The schemas, their owners, the role of each part in them, and rights of a tenant's roles outside of its schema."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from psycopg import Connection

from turno.capability import Outside, installed
from turno.errors import TurnoError
from turno.tenancy.identity.directory import list_tenants
from turno.tenancy.identity.function_names import own_name
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.tenant import Tenant
from turno.tenancy.rights.grants import CONTROL, TENANT
from turno.tenancy.rights.matrix import Matrix, Role

CONTROL_SCHEMA = "turno"
# The pinned search path of each function: temporary objects come last, or they would shadow ours.
PATH = "{}, pg_temp"


@dataclass(frozen=True, slots=True)
class Schema:
    """One schema of this installation. `slug` is its tenant's, or empty for the control schema.

    `adopted` is the schema of the application in which the tenant's handlers work, too, or None.
    """

    name: str
    slug: str
    owner: str
    matrix: Matrix
    roles: Mapping[Role, str]
    adopted: str | None = None

    def own_name(self, function: str) -> str:
        """Return the name in this schema of a function of the files."""
        return own_name(function, self.name) if self.slug else function

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
    """Return the schemas of the tenants in this state, in the order of their creation."""
    return [tenant_schema(logins, tenant) for tenant in list_tenants(admin, state)]


def tenant_schema(logins: Logins, tenant: Tenant) -> Schema:
    """Return the schema of a tenant in any state."""
    roles = {
        Role.HANDLER: tenant.handler_role,
        Role.API: tenant.api_role,
        Role.REPORT: tenant.report_role,
        Role.ENGINE: logins.engine,
        Role.WEB: logins.web,
        Role.CONTROL: logins.control,
    }
    matrix = TENANT.renamed(lambda function: own_name(function, tenant.schema))
    if tenant.readers_role:
        roles[Role.READERS] = tenant.readers_role
    else:
        matrix = matrix.without(Role.READERS)
    return Schema(tenant.schema, tenant.slug, tenant.owner_role, matrix, roles, tenant.adopted_schema)


class ApplicationChanged(TurnoError):
    """A right on a changed object of the application cannot be granted; the message names the remedy."""


def outside() -> Iterator[Outside]:
    """Yield the functions of capabilities that grant, revoke and check rights outside of a tenant's schema."""
    yield from (capability.outside for capability in installed() if capability.outside is not None)


def shared_schemas(admin: Connection[Any], handlers: str) -> tuple[str, ...]:
    """Return the schemas that the handlers of all tenants may read: the schemas that their group `handlers` may use."""
    rows = admin.execute(
        """
        SELECT n.nspname FROM pg_catalog.pg_shdepend d
        JOIN pg_catalog.pg_namespace n ON n.oid = d.objid AND d.classid = 'pg_namespace'::regclass
        WHERE d.refclassid = 'pg_authid'::regclass AND d.refobjid = to_regrole(%s) AND d.deptype = 'a'
          AND d.dbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()) ORDER BY 1
        """,
        [handlers],
    )
    return tuple(name for (name,) in rows)
