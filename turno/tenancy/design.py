"""The design that the catalog is compared with: schemas, roles and memberships; and the deviations from it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from psycopg import Connection

from turno.tenancy.identity.directory import list_tenants
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
from turno.tenancy.rights.live import PUBLIC, Difference
from turno.tenancy.rights.schemas import Schema, control_schema, shared_schemas, tenant_schemas

REGRANT = "run `turno db migrate --redefine`"
INSTALL = "run `turno db migrate` as a superuser"


class Finding(NamedTuple):
    """A deviation from the design: the object, the problem and the remedy.

    `for_superuser`: only a superuser can repair it, so that it stays on a managed server.
    """

    object: str
    problem: str
    remedy: str
    for_superuser: bool = False

    def __str__(self) -> str:
        return f"{self.object}: {self.problem}; {self.remedy}"


def findings_of(name: str, difference: Difference) -> Iterator[Finding]:
    """Yield the surplus and the missing rights on an object of this name."""
    for word, aces in (("may", difference.excess), ("may not", difference.missing)):
        for ace in sorted(aces, key=str):
            column = f" ({ace.column})" if ace.column else ""
            granting = ", and grant it to others" if ace.grantable else ""
            yield Finding(name, f"{ace.grantee} {word} {ace.privilege}{column}{granting}", REGRANT)


@dataclass(frozen=True, slots=True)
class Design:
    """The expected schemas, roles and memberships, from turno.tenants and turno.companies alone.

    `unfinished` are the slugs with incomplete provisioning, `shared` the look-up schemas that every handler may read.
    """

    logins: Logins
    prefix: str  # of the names of all roles of this installation
    schemas: tuple[Schema, ...]
    roles: dict[str, RoleSpec]
    memberships: frozenset[Membership]
    unfinished: tuple[str, ...]
    shared: tuple[str, ...]

    @classmethod
    def read(cls, admin: Connection[Any], logins: Logins) -> Self:
        """Read the tables of tenants and companies."""
        shared = shared_schemas(admin, logins.handlers)
        roles = service_roles(logins)
        memberships = reserved_memberships(admin, logins)
        for tenant in (*list_tenants(admin), *list_tenants(admin, "provisioning")):
            roles += tenant_roles(*tenant.roles, readers=tenant.readers_role)
            readers = tenant.parent_readers
            memberships += tenant_memberships(logins, *tenant.roles, sharing=bool(shared), parent_readers=readers)
        roles += [report_role(report) for (report,) in admin.execute("SELECT report_role FROM turno.companies")]
        return cls(
            logins=logins,
            prefix=logins.role(""),
            schemas=(control_schema(logins), *tenant_schemas(admin, logins)),
            roles={spec.name: spec for spec in roles},
            memberships=frozenset(memberships),
            unfinished=tuple(schema.slug for schema in tenant_schemas(admin, logins, state="provisioning")),
            shared=shared,
        )

    @property
    def owners(self) -> list[str]:
        """The roles that own schemas."""
        return [schema.owner for schema in self.schemas]

    @property
    def confined(self) -> set[str]:
        """PUBLIC and the roles without the former rights of PUBLIC."""
        return {PUBLIC, *self.roles} - {self.logins.host}
