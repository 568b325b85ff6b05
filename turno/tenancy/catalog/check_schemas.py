"""Check every schema against the matrix: owners, rights, definer functions and their paths, row-level security."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from psycopg import Connection

from turno.capability import left_behind
from turno.named import load
from turno.tenancy.catalog.finding import REGRANT, Finding, findings_of
from turno.tenancy.provisioning.installation import Installation
from turno.tenancy.rights.apply_grants import differences
from turno.tenancy.rights.matrix import CatalogObject, Kind, Policy
from turno.tenancy.rights.outside import outside
from turno.tenancy.rights.privileges import LiveObject, live_objects
from turno.tenancy.rights.schemas import Schema

RESTORE = "restore it from the migrations, and investigate the change"


def check_schemas(admin: Connection[Any], installation: Installation) -> Iterator[Finding]:
    """Yield the findings about the control schema and the schemas of active tenants."""
    live: dict[str, list[LiveObject]] = defaultdict(list)
    for found in live_objects(admin, [schema.name for schema in installation.schemas]):
        live[found.schema].append(found)
    for schema in installation.schemas:
        if schema.name not in live:
            yield Finding(f"schema {schema.name}", "is missing", "restore it from a backup, or remove its tenant")
            continue
        yield from _check_schema(schema, live[schema.name])
        for one in outside():
            yield from load(one.check)(admin, schema)
    yield from _check_policies(admin, installation)
    yield from _check_defaults(admin, installation)


def _check_schema(schema: Schema, live: list[LiveObject]) -> Iterator[Finding]:
    for difference in differences(schema, live):
        yield from findings_of(_name(schema, difference.thing), difference)
    yield from _check_names(schema, live)
    for found in live:
        if found.owner != schema.owner:
            yield Finding(_name(schema, found.thing), f"is owned by {found.owner}", f"give it to {schema.owner}")
        if left_behind(found.source):
            continue
        if found.thing.kind is Kind.FUNCTION:
            yield from _check_function(schema, found)
        if found.row_security != any(table == found.thing.name for table, _ in schema.matrix.policies):
            state = "on" if found.row_security else "off"
            yield Finding(_name(schema, found.thing), f"has row-level security {state}", RESTORE)


def _check_names(schema: Schema, live: list[LiveObject]) -> Iterator[Finding]:
    functions = Counter(found.thing.name for found in live if found.thing.kind is Kind.FUNCTION)
    for name, count in functions.items():
        if count > 1:
            yield Finding(
                _name(schema, CatalogObject(Kind.FUNCTION, name)),
                "has a namesake",
                "drop the function that is not Turno's",
            )
    for name in sorted(schema.matrix.functions.keys() - functions.keys()):
        yield Finding(_name(schema, CatalogObject(Kind.FUNCTION, name)), "is missing", REGRANT)


def _check_function(schema: Schema, found: LiveObject) -> Iterator[Finding]:
    name = _name(schema, found.thing)
    if found.thing.name in schema.matrix.invokers:
        return
    if found.thing.name in schema.matrix.functions and not found.definer:
        yield Finding(name, "does not run as its owner", RESTORE)
    paths = [setting for setting in found.config if setting.startswith("search_path=")]
    if paths != [f"search_path={schema.path}"]:
        yield Finding(name, f"has not pinned its search_path to {schema.path}", RESTORE)


def _check_policies(admin: Connection[Any], installation: Installation) -> Iterator[Finding]:
    for schema in installation.schemas:
        if schema.matrix.policies:
            live = dict(_live_policies(admin, schema.name))
            wanted = schema.matrix.policies
            for table, name in sorted(live.keys() | wanted.keys()):
                if live.get((table, name)) != wanted.get((table, name)):
                    yield Finding(f"policy {name} on {schema.name}.{table}", "is not the designed one", RESTORE)


def _live_policies(admin: Connection[Any], schema: str) -> Iterable[tuple[tuple[str, str], Policy]]:
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
        [schema],
    )
    for table, name, command, using, check, plain, source in rows:
        if left_behind(source):
            continue
        yield (table, name), Policy(command if plain else f"{command}, restricted", using, check)


def _check_defaults(admin: Connection[Any], installation: Installation) -> Iterator[Finding]:
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
        [list(installation.owners)],
    )
    for role, closed, opened in rows:
        if opened or not closed:
            yield Finding(f"role {role}", "gives rights on future objects", "ALTER DEFAULT PRIVILEGES … REVOKE")


def _name(schema: Schema, thing: CatalogObject) -> str:
    whose = f" of {schema.slug}" if schema.slug else ""
    return (
        f"schema {schema.name}{whose}"
        if thing.kind is Kind.SCHEMA
        else f"{thing.kind} {schema.name}.{thing.name}{whose}"
    )
