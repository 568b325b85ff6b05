"""Adopt a schema of the application for a tenant; a schema that cannot be adopted is refused before any change."""

import re
from dataclasses import dataclass
from typing import Any

from psycopg import Connection

from turno.capabilities.adoption.table_rights import TableRights
from turno.errors import TurnoError
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.tenant import SCHEMA, Tenant
from turno.tenancy.provisioning.provision import TenantExists, add_company, add_tenant
from turno.tenancy.rights.grants import TENANT
from turno.tenancy.rights.matrix import Role
from turno.tenancy.schema_migrations.files import Migrations

NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
RESERVED = ("public", "turno", "information_schema")


class CannotAdopt(TurnoError):
    """A schema cannot be adopted, and nothing was changed; the message names the schema and the remedy."""


@dataclass(frozen=True, slots=True)
class Adoption:
    """The schema to adopt, the role that creates its tables (by default its owner), and the rights of handlers."""

    schema: str
    table_owner: str | None
    rights: TableRights

    def record(self, admin: Connection[Any], tenant: Tenant) -> str:
        """Record the adoption and return the schema, or raise CannotAdopt; inside the caller's transaction.

        A schema that the tenant has adopted before must be gone, as after it was renamed.
        """
        table_owner = check_adoptable(admin, tenant.slug, self)
        before = tenant.adopted_schema
        there = "SELECT FROM pg_catalog.pg_namespace WHERE nspname = %s"
        if before not in (None, self.schema) and tenant.state == "active" and admin.execute(there, [before]).rowcount:
            raise TenantExists(
                f"{tenant.slug} has adopted the schema {before}; remove the tenant first if it is to have another"
            )
        admin.execute(
            "INSERT INTO turno.adoptions (tenant_id, table_owner, rights) VALUES (%s, %s, %s)"
            " ON CONFLICT (tenant_id) DO UPDATE SET table_owner = excluded.table_owner, rights = excluded.rights",
            [tenant.id, table_owner, self.rights.text],
        )
        return self.schema


def adopt(
    admin: Connection[Any],
    logins: Logins,
    slug: str,
    adoption: Adoption,
    *,
    company: str,
    connections: int,
    migrations: Migrations | None = None,
) -> Tenant:
    """Return the tenant of an adopted schema; a missing company is added. CannotAdopt changes nothing else."""
    add_company(admin, logins, company, company)
    return add_tenant(
        admin, logins, slug, company, connections=connections, migrations=migrations, adopt=adoption.record
    )


def check_adoptable(admin: Connection[Any], slug: str, wanted: Adoption) -> str:
    """Return the role that makes the schema's tables, or raise CannotAdopt."""
    name = wanted.schema
    if name in RESERVED or name.startswith("pg_") or SCHEMA.fullmatch(name):
        raise CannotAdopt(
            f"{name[:60]!r} cannot be adopted: every role may use it, or it is PostgreSQL's own or Turno's; move the "
            "tenant's tables into a schema of their own: CREATE SCHEMA, then ALTER TABLE … SET SCHEMA"
        )
    if not NAME.fullmatch(name):
        raise CannotAdopt(f"{name[:60]!r} cannot be adopted: rename it to a name of a-z, 0-9 and _")
    row = admin.execute(_SCHEMA, {"name": name, "owner": wanted.table_owner, "slug": slug}).fetchone()
    if row is None:
        raise CannotAdopt(f"there is no schema {name}; create it, or correct its name")
    owner, table_owner, is_superuser, may_act, everybody, tenant = row
    if tenant is not None:
        raise CannotAdopt(f"the schema {name} is the tenant {tenant}'s; a schema has one tenant")
    if table_owner is None:
        raise CannotAdopt(f"there is no role {wanted.table_owner}, which should make the tables of {name}; correct it")
    if is_superuser:
        raise CannotAdopt(
            f"the schema {name} belongs to {table_owner}, a superuser: objects made there would run with every right. "
            f"ALTER SCHEMA {name} OWNER TO the application's role, or name the role that makes its tables: --owner ROLE"
        )
    if not may_act:
        raise CannotAdopt(
            f"{admin.info.user} may not grant rights on {owner}'s schema {name}: use a superuser in "
            f"TURNO_ADMIN_DATABASE_URL, or GRANT {owner}, {table_owner} TO {admin.info.user}"
        )
    if everybody:
        raise CannotAdopt(
            f"every role (PUBLIC) may use the schema {name}, and so could every other tenant's handlers: GRANT USAGE "
            f"ON SCHEMA {name} to the roles that need it, then REVOKE ALL ON SCHEMA {name} FROM PUBLIC"
        )
    _check_names(admin, wanted)
    return str(table_owner)


def _check_names(admin: Connection[Any], wanted: Adoption) -> None:
    """Refuse names that would hide ours in a handler's search_path, and listed tables that do not exist."""
    name = wanted.schema
    for kind, one in hiding_names(admin, name):
        raise CannotAdopt(
            f"the {kind} {one} of the schema {name} has the name of one of Turno's, which handlers use: rename it"
        )
    there = admin.execute(
        "SELECT relname FROM pg_catalog.pg_class WHERE relnamespace = to_regnamespace(%s) AND relname = ANY (%s)"
        " AND relkind IN ('r', 'p', 'f', 'v', 'm')",
        [name, list(wanted.rights.listed)],
    ).fetchall()
    for missing in sorted(wanted.rights.listed.keys() - {relation for (relation,) in there}):
        raise CannotAdopt(f"the schema {name} has no table {missing}, on which handlers should have rights; correct it")


def hiding_names(admin: Connection[Any], schema: str) -> list[tuple[str, str]]:
    """Return kind and name of each object in an adopted schema that hides one of ours in a handler's search_path."""
    relations, functions = seen_by_handlers()
    return admin.execute(
        """
        SELECT 'table', relname FROM pg_catalog.pg_class
        WHERE relnamespace = to_regnamespace(%(name)s) AND relname = ANY (%(relations)s)
        UNION ALL
        SELECT 'function', proname FROM pg_catalog.pg_proc
        WHERE pronamespace = to_regnamespace(%(name)s) AND proname = ANY (%(functions)s) ORDER BY 1, 2
        """,
        {"name": schema, "relations": sorted(relations), "functions": sorted(functions)},
    ).fetchall()


def seen_by_handlers() -> tuple[frozenset[str], frozenset[str]]:
    """Return the tables and functions of Turno that a handler's session names without a schema."""
    relations = {name for name, rights in TENANT.relations.items() if Role.HANDLER in rights}
    columns = {table for (table, _), rights in TENANT.columns.items() if Role.HANDLER in rights}
    functions = {name for name, roles in TENANT.functions.items() if Role.HANDLER in roles}
    return frozenset(relations | columns), frozenset(functions)


_SCHEMA = """
SELECT o.rolname, t.rolname, coalesce(t.rolsuper, false) OR o.rolsuper AND %(owner)s::text IS NULL,
       pg_has_role(o.oid, 'USAGE') AND coalesce(pg_has_role(t.oid, 'USAGE'), true),
       EXISTS (SELECT FROM aclexplode(n.nspacl) a WHERE a.grantee = 0),
       (SELECT slug FROM turno.tenants WHERE adopted_schema = n.nspname AND state <> 'removed' AND slug <> %(slug)s)
FROM pg_catalog.pg_namespace n
JOIN pg_catalog.pg_roles o ON o.oid = n.nspowner
LEFT JOIN pg_catalog.pg_roles t ON t.rolname = coalesce(%(owner)s, o.rolname)
WHERE n.nspname = %(name)s
"""
