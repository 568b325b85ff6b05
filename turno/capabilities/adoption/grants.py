"""The rights of our roles on the application's objects in an adopted schema: grant, revoke and check these rights."""

from collections.abc import Iterator
from typing import Any, LiteralString

from psycopg import Connection, sql

from turno.capabilities.adoption.adopted import NO_DEFAULTS, Adopted, Defaults
from turno.capabilities.adoption.adopting import hiding_tables
from turno.tenancy.design import REGRANT, Finding, findings_of
from turno.tenancy.identity.foreign_functions import foreign_functions
from turno.tenancy.rights.live import Difference, live_objects, make_equal
from turno.tenancy.rights.matrix import Kind
from turno.tenancy.rights.schemas import ApplicationChanged, Schema, shared_schemas

_ON = {"r": sql.SQL("TABLES"), "S": sql.SQL("SEQUENCES")}


def grant(admin: Connection[Any], schema: Schema) -> bool:
    """Grant the rights of the tenant's adoption on present and future objects; return whether a right changed.

    Runs as the provisioner, inside the caller's transaction. Raises ApplicationChanged if the schema or the role that
    makes its tables is gone, or if the provisioner may not grant.
    """
    adopted = Adopted.read(admin, schema)
    if adopted is None:
        return False
    check_present(admin, adopted)
    changed = make_equal(admin, adopted.name, differences(admin, adopted))
    changed |= _set_defaults(admin, adopted, adopted.defaults)
    # A GRANT without the right to grant is only a warning.
    doubtful = changed and admin.info.parameter_status("is_superuser") != "on"
    for target, _, missing in differences(admin, adopted) if doubtful else ():
        if missing:
            raise ApplicationChanged(
                f"{admin.info.user} may not grant rights on the {target.kind} {target.name} of {adopted.name}: use a "
                f"superuser in TURNO_ADMIN_DATABASE_URL, or GRANT the role that owns it to {admin.info.user}"
            )
    return changed


def revoke(admin: Connection[Any], schema: Schema) -> None:
    """Revoke each right of our roles on the application's objects in the schema, present and future objects."""
    adopted = Adopted.read(admin, schema)
    if adopted is None:
        return
    live = list(live_objects(admin, [adopted.name]))
    make_equal(admin, adopted.name, (Difference(entry.target, adopted.ours(entry.aces), frozenset()) for entry in live))
    _set_defaults(admin, adopted, NO_DEFAULTS)


def check(admin: Connection[Any], schema: Schema) -> Iterator[Finding]:
    """Yield missing and surplus rights of our roles on the application's objects, and further roles with rights."""
    adopted = Adopted.read(admin, schema)
    if adopted is None:
        return
    name = f"schema {adopted.name} of {adopted.slug}"
    try:
        check_present(admin, adopted)
    except ApplicationChanged as changed:
        problem, _, remedy = str(changed).partition(": ")
        yield Finding(name, problem, remedy)
        return
    for difference in differences(admin, adopted):
        kind, object_name = difference.target
        subject = name if kind is Kind.SCHEMA else f"{kind} {adopted.name}.{object_name} of {adopted.slug}"
        yield from findings_of(subject, difference)
    for hiding in hiding_tables(admin, adopted.name):
        problem = f"has the name of one of Turno's, which SQL of handlers reaches by {adopted.name} first"
        yield Finding(f"table {adopted.name}.{hiding} of {adopted.slug}", problem, "rename it")
    for what, caller, function in foreign_functions(admin, [adopted.name]):
        problem = f"calls {function}, so no report of the company reads it"
        yield Finding(f"{what} {caller} of {adopted.slug}", problem, "remove the call, if reports are needed")
    if live_defaults(admin, adopted) != adopted.defaults:
        yield Finding(name, "gives other rights on future tables than its adoption states", REGRANT)
    if admin.execute(
        "SELECT FROM pg_catalog.pg_namespace n, aclexplode(n.nspacl) a WHERE n.nspname = %s AND a.grantee = 0",
        [adopted.name],
    ).rowcount:
        remedy = f"GRANT USAGE to the roles that need it, and REVOKE ALL ON SCHEMA {adopted.name} FROM PUBLIC"
        yield Finding(name, "may be used by every role (PUBLIC), other tenants' handlers included", remedy)


def differences(admin: Connection[Any], adopted: Adopted) -> Iterator[Difference]:
    """Yield the deviations of our roles' rights on the application's objects from the adoption."""
    shared = ["pg_catalog", *shared_schemas(admin, f"{adopted.prefix}handlers")]
    reaching = {name for (name,) in admin.execute(_REACHING, {"schema": adopted.name, "shared": shared})}
    tables = dict(admin.execute(_NUMBERED, {"schema": adopted.name}).fetchall())
    for entry in live_objects(admin, [adopted.name]):
        name = entry.target.name
        wanted = adopted.wanted(entry, reaches_out=name in reaching, numbered=tables.get(name))
        live = adopted.ours(entry.aces)
        if wanted != live:
            yield Difference(entry.target, live - wanted, wanted - live)


def check_present(admin: Connection[Any], adopted: Adopted) -> None:
    """Raise ApplicationChanged if the schema or the role that makes its tables is gone."""
    if not admin.execute("SELECT FROM pg_catalog.pg_namespace WHERE nspname = %s", [adopted.name]).rowcount:
        raise ApplicationChanged(
            f"the schema {adopted.name} was renamed or dropped: run `turno schema adopt NEW_NAME --tenant "
            f"{adopted.slug}`, or `turno tenant remove {adopted.slug}`"
        )
    if not admin.execute("SELECT FROM pg_catalog.pg_roles WHERE rolname = %s", [adopted.table_owner]).rowcount:
        raise ApplicationChanged(
            f"the role {adopted.table_owner}, which made the tables of {adopted.name}, is gone: "
            f"run `turno schema adopt {adopted.name} --tenant {adopted.slug} --owner ROLE`"
        )


def live_defaults(admin: Connection[Any], adopted: Adopted) -> Defaults:
    """Return the rights of our roles on future objects of the schema."""
    rows = admin.execute(
        """
        SELECT d.defaclobjtype::text, pg_get_userbyid(a.grantee), a.privilege_type
        FROM pg_catalog.pg_default_acl d
        CROSS JOIN aclexplode(d.defaclacl) a
        JOIN pg_catalog.pg_namespace n ON n.oid = d.defaclnamespace
        JOIN pg_catalog.pg_roles r ON r.oid = d.defaclrole
        WHERE r.rolname = %s AND n.nspname = %s AND starts_with(pg_get_userbyid(a.grantee), %s)
        """,
        [adopted.table_owner, adopted.name, adopted.prefix],
    ).fetchall()
    return {kind: frozenset((role, privilege) for of, role, privilege in rows if of == kind) for kind in _ON}


def _set_defaults(admin: Connection[Any], adopted: Adopted, wanted: Defaults) -> bool:
    live = live_defaults(admin, adopted)
    alter = sql.SQL("ALTER DEFAULT PRIVILEGES FOR ROLE {} IN SCHEMA {} {} ON {} {} {}")
    owner, schema = sql.Identifier(adopted.table_owner), sql.Identifier(adopted.name)
    for kind, entries in wanted.items():
        for verb, preposition, change in (
            ("REVOKE ", "FROM", live[kind] - entries),
            ("GRANT ", "TO", entries - live[kind]),
        ):
            for role in sorted({role for role, _ in change}):
                words = sql.SQL(verb + ", ".join(sorted(privilege for of, privilege in change if of == role)))
                to = sql.SQL(preposition), sql.Identifier(role)
                admin.execute(alter.format(owner, schema, words, _ON[kind], *to))
    return live != wanted


# The relations that read other schemas or servers without a right of the reader, directly or not: a view runs as its
# owner, and a table reads its partitions. Schemas that every handler may read do not count.
_REACHING: LiteralString = """
WITH RECURSIVE relations AS (
    SELECT c.oid, c.relname, c.relnamespace, c.relkind
    FROM pg_catalog.pg_namespace n
    JOIN pg_catalog.pg_depend d ON d.refclassid = 'pg_catalog.pg_namespace'::regclass AND d.refobjid = n.oid
    JOIN pg_catalog.pg_class c ON d.classid = 'pg_catalog.pg_class'::regclass AND c.oid = d.objid
    WHERE n.nspname = %(schema)s AND c.relkind IN ('p', 'r', 'f', 'v', 'm')
), reads AS (
    SELECT c.oid AS relation, c.relnamespace AS home, d.refobjid AS other
    FROM relations c
    JOIN pg_catalog.pg_rewrite w ON w.ev_class = c.oid
    JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.objid = w.oid
                               AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid <> c.oid
    UNION ALL
    SELECT c.oid, c.relnamespace, i.inhrelid FROM relations c JOIN pg_catalog.pg_inherits i ON i.inhparent = c.oid
), reaching (relation) AS (
    SELECT oid FROM relations WHERE relkind = 'f'
    UNION
    SELECT r.relation FROM reads r JOIN pg_catalog.pg_class o ON o.oid = r.other
    WHERE o.relnamespace <> r.home AND o.relnamespace::regnamespace::text <> ALL (%(shared)s)
    UNION
    SELECT r.relation FROM reaching x JOIN reads r ON r.other = x.relation
)
SELECT c.relname FROM reaching x JOIN relations c ON c.oid = x.relation
"""
# The table that each sequence of the schema numbers.
_NUMBERED: LiteralString = """
SELECT s.relname, t.relname
FROM pg_catalog.pg_class s
JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = s.oid
                           AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.deptype = 'a'
JOIN pg_catalog.pg_class t ON t.oid = d.refobjid
WHERE s.relkind = 'S' AND s.relnamespace = to_regnamespace(quote_ident(%(schema)s))
"""
