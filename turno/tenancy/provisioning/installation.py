"""The installation by design: its schemas and roles, from its own tables alone."""

from dataclasses import dataclass
from typing import Any

from psycopg import Connection

from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.roles import (
    Membership,
    RoleSpec,
    report_role,
    reserved_memberships,
    service_roles,
    tenant_memberships,
    tenant_roles,
)
from turno.tenancy.rights.schemas import Schema, control_schema, shared_schemas, tenant_schemas


@dataclass(frozen=True, slots=True)
class Installation:
    """The expected schemas, roles and memberships. `unfinished` are the slugs with incomplete provisioning.

    `shared` are the look-up schemas that every handler may read.
    """

    logins: Logins
    schemas: tuple[Schema, ...]
    roles: dict[str, RoleSpec]
    memberships: frozenset[Membership]
    unfinished: tuple[str, ...]
    shared: tuple[str, ...]

    @property
    def owners(self) -> frozenset[str]:
        """The roles that own schemas."""
        return frozenset(schema.owner for schema in self.schemas)

    @property
    def prefix(self) -> str:
        """The prefix of the names of all roles of this installation."""
        return self.logins.role("")


def read_installation(admin: Connection[Any], logins: Logins) -> Installation:
    """Return the installation that turno.tenants and turno.companies describe."""
    shared = shared_schemas(admin, logins.handlers)
    roles = service_roles(logins)
    memberships = reserved_memberships(admin, logins)
    for names in admin.execute("SELECT owner_role, handler_role, api_role FROM turno.tenants WHERE state <> 'removed'"):
        roles += tenant_roles(*names)
        memberships += tenant_memberships(logins, *names, sharing=bool(shared))
    roles += [report_role(report) for (report,) in admin.execute("SELECT report_role FROM turno.companies")]
    return Installation(
        logins=logins,
        schemas=(control_schema(logins), *tenant_schemas(admin, logins)),
        roles={spec.name: spec for spec in roles},
        memberships=frozenset(memberships),
        unfinished=tuple(schema.slug for schema in tenant_schemas(admin, logins, state="provisioning")),
        shared=shared,
    )
