"""Adopt schemas of the application for tenants: a single schema, or the schemas of a CSV file.

A schema that cannot be adopted is refused before any change.
"""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from psycopg import Connection

from turno.capabilities.adoption.adopted import WRITE, InvalidRights, TableRights
from turno.errors import TurnoError
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.tenant import SCHEMA, SLUG, Tenant
from turno.tenancy.provisioning.provision import TenantExists, add_company, add_tenant
from turno.tenancy.rights.grants import TENANT
from turno.tenancy.rights.matrix import Role
from turno.tenancy.schema_migrations.files import Migrations

COLUMNS = ("slug", "schema", "owner", "rights", "company")
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
    for hidden in hiding_tables(admin, name):
        raise CannotAdopt(
            f"the table {hidden} of the schema {name} has the name of one of Turno's, which handlers use: rename it"
        )
    there = admin.execute(
        "SELECT relname FROM pg_catalog.pg_class WHERE relnamespace = to_regnamespace(%s) AND relname = ANY (%s)"
        " AND relkind IN ('r', 'p', 'f', 'v', 'm')",
        [name, list(wanted.rights.listed)],
    ).fetchall()
    for missing in sorted(wanted.rights.listed.keys() - {relation for (relation,) in there}):
        raise CannotAdopt(f"the schema {name} has no table {missing}, on which handlers should have rights; correct it")


def hiding_tables(admin: Connection[Any], schema: str) -> list[str]:
    """Return the relations of an adopted schema that hide one of ours in a handler's search_path."""
    rows = admin.execute(
        "SELECT relname FROM pg_catalog.pg_class WHERE relnamespace = to_regnamespace(%s) AND relname = ANY (%s)"
        " ORDER BY relname",
        [schema, sorted(seen_by_handlers())],
    )
    return [name for (name,) in rows]


def seen_by_handlers() -> frozenset[str]:
    """Return the tables of Turno that a handler's session may read without their schema."""
    relations = {name for name, rights in TENANT.relations.items() if Role.HANDLER in rights}
    return frozenset(relations | {table for (table, _), rights in TENANT.columns.items() if Role.HANDLER in rights})


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


class InvalidList(TurnoError):
    """A list of tenants has errors, each named by line and column; the database is unchanged."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))


@dataclass(frozen=True, slots=True)
class Listed:
    """One tenant of a list, with its file and line."""

    location: str
    slug: str
    company: str
    adoption: Adoption

    @classmethod
    def read(cls, location: str, row: Mapping[Any, Any]) -> "Listed | list[str]":
        """Return the tenant of a row, or the errors of the row."""
        values = {column: str(row.get(column) or "").strip() for column in COLUMNS}
        problems = []
        if None in row:
            problems.append(f"{location}: more values than columns; quote a list of tables")
        if not SLUG.fullmatch(values["slug"]):
            problems.append(
                f"{location}, column slug: {values['slug'][:60]!r} is not a slug: a-z, then a-z, 0-9, _ and -"
            )
        if not NAME.fullmatch(values["schema"]):
            problems.append(f"{location}, column schema: {values['schema'][:60]!r} is not a schema of a-z, 0-9 and _")
        if values["company"] and not SLUG.fullmatch(values["company"]):
            problems.append(f"{location}, column company: {values['company'][:60]!r} is not a slug")
        try:
            rights = TableRights.parse(values["rights"] or WRITE)
        except InvalidRights as error:
            problems.append(f"{location}, column rights: {error}")
        if problems:
            return problems
        adoption = Adoption(values["schema"], values["owner"] or None, rights)
        return cls(location, values["slug"], values["company"] or values["slug"], adoption)


def read_list(file: TextIO) -> list[Listed]:
    """Read a CSV file with a header of all or some of COLUMNS; raises InvalidList."""
    reader = csv.DictReader(file, skipinitialspace=True)
    source = getattr(file, "name", "standard input")
    names = [name.strip() for name in reader.fieldnames or ()]
    if not {"slug", "schema"} <= set(names) or not set(names) <= set(COLUMNS):
        raise InvalidList([f"{source}, line 1: columns are {', '.join(COLUMNS)}; slug and schema must be there"])
    reader.fieldnames = names
    tables: list[Listed] = []
    problems: list[str] = []
    first: dict[tuple[str, str], str] = {}
    for row in reader:
        location = f"{source}, line {reader.line_num}"
        listed = Listed.read(location, row)
        if isinstance(listed, list):
            problems += listed
            continue
        for column, value in (("slug", listed.slug), ("schema", listed.adoption.schema)):
            before = first.setdefault((column, value), location)
            if before != location:
                problems.append(f"{location}, column {column}: {value} is listed before, at {before}")
        tables.append(listed)
    if problems:
        raise InvalidList(problems)
    return tables


def read_adopted(admin: Connection[Any]) -> set[tuple[str, str, str]]:
    """Return slug, adopted schema and rights of each active tenant with an adoption."""
    rows = admin.execute(
        "SELECT n.slug, n.adopted_schema, a.rights"
        " FROM turno.tenants n JOIN turno.adoptions a ON a.tenant_id = n.id WHERE n.state = 'active'"
    )
    return set(rows.fetchall())
