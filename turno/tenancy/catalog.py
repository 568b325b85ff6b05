"""Compare the live catalog with the matrix of rights and with the expected schemas, roles and settings."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from psycopg import Connection

from turno.capability import left_behind, load
from turno.tenancy.design import INSTALL, REGRANT, Design, Finding, findings_of
from turno.tenancy.identity.logins import Logins
from turno.tenancy.rights.live import LiveObject, differences, live_objects
from turno.tenancy.rights.matrix import CatalogObject, Kind, Policy
from turno.tenancy.rights.schemas import Schema, outside
from turno.tenancy.role_checks import (
    check_belongings,
    check_database_rights,
    check_elsewhere,
    check_functions,
    check_memberships,
    check_roles,
    check_settings,
)

RESTORE = "restore it from the migrations, and investigate the change"
FORBIDDEN_EXTENSIONS = ("dblink", "postgres_fdw", "file_fdw", "adminpack")


def check(admin: Connection[Any], logins: Logins) -> list[Finding]:
    """Return all deviations of Turno's schemas, roles and database from the design; changes nothing.

    Any login that may read turno.tenants and turno.companies can call this: the catalog is open to all.
    """
    design = Design.read(admin, logins)
    with admin.transaction():
        return [finding for part in PARTS for finding in part(admin, design)]


def _check_schemas(admin: Connection[Any], design: Design) -> Iterator[Finding]:
    live: dict[str, list[LiveObject]] = defaultdict(list)
    for entry in live_objects(admin, [schema.name for schema in design.schemas]):
        live[entry.schema].append(entry)
    for schema in design.schemas:
        if schema.name not in live:
            yield Finding(f"schema {schema.name}", "is missing", "restore it from a backup, or remove its tenant")
            continue
        yield from _check_objects(schema, live[schema.name])
        for table in outside():
            yield from load(table.check)(admin, schema)


def _check_objects(schema: Schema, live: list[LiveObject]) -> Iterator[Finding]:
    """Yield wrong rights, missing and overloaded functions, wrong owners, and row-level security."""
    for difference in differences(schema, live):
        yield from findings_of(_name(schema, difference.target), difference)
    functions = Counter(object_.target for object_ in live if object_.target.kind is Kind.FUNCTION)
    for target, count in functions.items():
        if count > 1:
            yield Finding(_name(schema, target), "has a namesake", "drop the function that is not Turno's")
    for target in sorted({CatalogObject(Kind.FUNCTION, name) for name in schema.matrix.functions} - functions.keys()):
        yield Finding(_name(schema, target), "is missing", REGRANT)
    secured = {table for table, _ in schema.matrix.policies}
    for object_ in live:
        name = _name(schema, object_.target)
        if object_.owner != schema.owner:
            yield Finding(name, f"is owned by {object_.owner}", f"give it to {schema.owner}")
        if left_behind(object_.source):
            continue
        if object_.target.kind is Kind.FUNCTION and object_.target.name not in schema.matrix.invokers:
            yield from _check_definer(schema, object_)
        if object_.row_security != (object_.target.name in secured):
            yield Finding(name, f"has row-level security {'on' if object_.row_security else 'off'}", RESTORE)


def _check_definer(schema: Schema, entry: LiveObject) -> Iterator[Finding]:
    name = _name(schema, entry.target)
    if entry.target.name in schema.matrix.functions and not entry.definer:
        yield Finding(name, "does not run as its owner", RESTORE)
    paths = [setting for setting in entry.config if setting.startswith("search_path=")]
    if paths != [f"search_path={schema.path}"]:
        yield Finding(name, f"has not pinned its search_path to {schema.path}", RESTORE)


def _name(schema: Schema, target: CatalogObject) -> str:
    whose = f" of {schema.slug}" if schema.slug else ""
    subject = schema.name if target.kind is Kind.SCHEMA else f"{schema.name}.{target.name}"
    return f"{target.kind} {subject}{whose}"


def _check_policies(admin: Connection[Any], design: Design) -> Iterator[Finding]:
    for schema in design.schemas:
        if not schema.matrix.policies:
            continue
        rows = admin.execute(
            """
            SELECT c.relname, p.polname, p.polcmd::text,
                   replace(pg_get_expr(p.polqual, c.oid), c.relnamespace::regnamespace || '.', ''),
                   replace(pg_get_expr(p.polwithcheck, c.oid), c.relnamespace::regnamespace || '.', ''),
                   p.polpermissive AND p.polroles = '{0}',
                   substring(obj_description(c.oid, 'pg_class') FROM '^turno/(.*)$')
            FROM pg_catalog.pg_policy p JOIN pg_catalog.pg_class c ON c.oid = p.polrelid
            WHERE c.relnamespace = %s::regnamespace
            """,
            [schema.name],
        )
        live = {
            (table, name): Policy(command if plain else f"{command}, restricted", using, check)
            for table, name, command, using, check, plain, source in rows
            if not left_behind(source)
        }
        wanted = schema.matrix.policies
        for table, name in sorted(live.keys() | wanted.keys()):
            if live.get((table, name)) != wanted.get((table, name)):
                yield Finding(f"policy {name} on {schema.name}.{table}", "is not the designed one", RESTORE)


def _check_defaults(admin: Connection[Any], design: Design) -> Iterator[Finding]:
    """Yield owners with default privileges that would open new objects until the migration grants their rights."""
    rows = admin.execute(
        """
        SELECT r.rolname,
               coalesce(bool_or(d.defaclobjtype = 'f' AND d.defaclnamespace = 0), false),
               coalesce(bool_or(EXISTS (SELECT FROM aclexplode(d.defaclacl) a WHERE a.grantee <> r.oid)), false)
        FROM pg_catalog.pg_roles r
        LEFT JOIN pg_catalog.pg_default_acl d ON d.defaclrole = r.oid
        WHERE r.rolname = ANY (%s) GROUP BY r.rolname ORDER BY r.rolname
        """,
        [design.owners],
    )
    for role, closed, opened in rows:
        if opened or not closed:
            yield Finding(f"role {role}", "gives rights on future objects", "ALTER DEFAULT PRIVILEGES … REVOKE")


def _check_ways_out(admin: Connection[Any], _: Design) -> Iterator[Finding]:
    """Yield functions that reach out of the database, or hold advisory locks, and are open to our roles."""
    rows = admin.execute(
        """
        SELECT 'extension ' || extname, 'reaches out of this database', 'DROP EXTENSION'
        FROM pg_catalog.pg_extension WHERE extname = ANY (%s)
        UNION ALL
        SELECT 'language ' || lanname, 'is not confined to the database', 'DROP EXTENSION'
        FROM pg_catalog.pg_language WHERE NOT lanpltrusted AND lanname NOT IN ('internal', 'c')
        UNION ALL
        SELECT 'schema ' || n.nspname, 'PUBLIC may ' || string_agg(a.privilege_type, ', '), %s
        FROM pg_catalog.pg_namespace n, aclexplode(n.nspacl) a
        WHERE a.grantee = 0 AND (n.nspname = 'public' OR a.privilege_type = 'CREATE') GROUP BY n.nspname
        UNION ALL
        SELECT 'the server', 'keeps prepared transactions, and their locks, for ever', 'max_prepared_transactions = 0'
        WHERE current_setting('max_prepared_transactions')::integer > 0
        """,
        [list(FORBIDDEN_EXTENSIONS), INSTALL],
    )
    yield from (Finding(*row) for row in rows)


PARTS = (
    *(_check_schemas, _check_policies, _check_defaults),
    *(check_roles, check_memberships, check_settings),
    *(check_database_rights, check_functions, check_elsewhere, check_belongings, _check_ways_out),
)
