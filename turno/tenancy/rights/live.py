"""The objects of our schemas in the catalog: their rights, the deviations from the matrix, and the correction."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from psycopg import Connection, sql

from turno.tenancy.rights.matrix import CatalogObject, Kind
from turno.tenancy.rights.schemas import Schema

PUBLIC = "PUBLIC"


class Ace(NamedTuple):
    """An entry of an access list: a privilege of a role, and whether it includes the grant option."""

    column: str | None
    grantee: str
    privilege: str
    grantable: bool = False


@dataclass(frozen=True, slots=True)
class LiveObject:
    """One schema, function, table, view or sequence, without the rights of its owner."""

    schema: str
    target: CatalogObject
    owner: str
    definer: bool
    config: tuple[str, ...]
    row_security: bool
    aces: frozenset[Ace]
    source: str | None = None  # the source that made it, from its comment


class Difference(NamedTuple):
    """The surplus or missing rights on an object."""

    target: CatalogObject
    excess: frozenset[Ace]
    missing: frozenset[Ace]


def live_objects(admin: Connection[Any], schemas: Collection[str]) -> Iterator[LiveObject]:
    """Yield each object in these schemas on which rights can be granted."""
    rows = admin.execute(_LIVE, [list(schemas)])
    for schema, kind, name, owner, definer, config, row_security, aces, source in rows:
        entries = frozenset(Ace(*ace) for ace in aces)
        target = CatalogObject(Kind(kind), name)
        yield LiveObject(schema, target, owner, definer, tuple(config or ()), row_security, entries, source)


def differences(schema: Schema, live: Iterable[LiveObject]) -> Iterator[Difference]:
    """Yield the deviations from the matrix, object by object."""
    for object_ in live:
        # A relation of a source that is gone belongs neither to the application nor to a role.
        foreign = object_.source is not None and object_.target.name not in schema.matrix.relations
        named = [] if foreign and object_.target.kind is not Kind.FUNCTION else [object_.target]
        wanted = frozenset(
            Ace(right.column, schema.roles[right.role], right.privilege) for right in schema.matrix.rights(named)
        )
        if wanted != object_.aces:
            yield Difference(object_.target, object_.aces - wanted, wanted - object_.aces)


def apply_grants(admin: Connection[Any], schema: Schema, live: Iterable[LiveObject]) -> bool:
    """Grant and revoke until these objects of the schema have the rights of the matrix; return whether a right changed.

    Runs as the schema's owner, inside the caller's transaction.
    """
    live = list(live)
    # Overloaded functions have the same name; the catalog check reports them.
    named = Counter(object_.target for object_ in live)
    return make_equal(
        admin, schema.name, differences(schema, (object_ for object_ in live if named[object_.target] == 1))
    )


def make_equal(admin: Connection[Any], schema: str, unequal: Iterable[Difference]) -> bool:
    """Revoke the surplus and grant the missing rights; return whether a right changed."""
    unequal = list(unequal)
    statements = []
    # Objects on which a role lacks the same rights share a statement: a tenant then needs 10 GRANTs and not 100.
    grants: dict[tuple[Kind, str, tuple[tuple[str, str | None], ...]], list[str]] = defaultdict(list)
    for target, excess, missing in unequal:
        for ace in excess:
            # CASCADE also revokes the grants of the role; the matrix gives no role a grant option.
            revoke = sql.SQL("REVOKE {} ON {} FROM {} CASCADE")
            right = _privileges([(ace.privilege, ace.column)])
            statements.append(revoke.format(right, _objects(schema, target.kind, [target.name]), role_sql(ace.grantee)))
        lacking: dict[str, list[tuple[str, str | None]]] = defaultdict(list)
        for ace in missing:
            lacking[ace.grantee].append((ace.privilege, ace.column))
        for grantee, privileges in lacking.items():
            grants[target.kind, grantee, tuple(sorted(privileges, key=str))].append(target.name)
    for (kind, grantee, rights), names in grants.items():
        grant = sql.SQL("GRANT {} ON {} TO {}")
        statements.append(grant.format(_privileges(rights), _objects(schema, kind, names), role_sql(grantee)))
    if statements:
        admin.execute(sql.SQL(";\n").join(statements))
    return bool(unequal)


KIND_SQL = {
    Kind.SCHEMA: sql.SQL("SCHEMA"),
    Kind.FUNCTION: sql.SQL("ROUTINE"),
    Kind.TABLE: sql.SQL("TABLE"),
    Kind.VIEW: sql.SQL("TABLE"),
    Kind.SEQUENCE: sql.SQL("SEQUENCE"),
    Kind.IDENTITY: sql.SQL("SEQUENCE"),
}


def _privileges(privileges: Iterable[tuple[str, str | None]]) -> sql.Composed:
    return sql.SQL(", ").join(
        sql.SQL(word) if column is None else sql.SQL(word + " ({})").format(sql.Identifier(column))
        for word, column in privileges
    )


def _objects(schema: str, kind: Kind, names: Iterable[str]) -> sql.Composed:
    path = () if kind is Kind.SCHEMA else (schema,)
    return KIND_SQL[kind] + sql.SQL(" ") + sql.SQL(", ").join(sql.Identifier(*path, name) for name in names)


def role_sql(role: str) -> sql.Composable:
    """Return a grantee: the name of a role, or PUBLIC."""
    return sql.SQL("PUBLIC") if role == PUBLIC else sql.Identifier(role)


# Through pg_depend, because neither pg_class nor pg_proc has an index that leads with the schema:
# without it each look at one tenant would read all tenants' entries.
_LIVE = """
WITH spaces AS (
    SELECT * FROM pg_catalog.pg_namespace WHERE nspname = ANY (%s)
), members AS (
    SELECT n.nspname, d.classid, d.objid
    FROM spaces n
    JOIN pg_catalog.pg_depend d ON d.refclassid = 'pg_catalog.pg_namespace'::regclass AND d.refobjid = n.oid
), things AS (
    SELECT nspname AS schema, 'schema' AS kind, nspname AS name, nspowner AS owner, false AS definer,
           NULL::text[] AS config, false AS row_security, coalesce(nspacl, acldefault('n', nspowner)) AS acl,
           0::oid AS relation, NULL::text AS source
    FROM spaces
    UNION ALL
    SELECT m.nspname, 'function', p.proname, p.proowner, p.prosecdef, p.proconfig, false,
           coalesce(p.proacl, acldefault('f', p.proowner)), 0::oid,
           substring(obj_description(p.oid, 'pg_proc') FROM '^turno/(.*)$')
    FROM members m JOIN pg_catalog.pg_proc p ON m.classid = 'pg_catalog.pg_proc'::regclass AND p.oid = m.objid
    UNION ALL
    SELECT m.nspname,
           CASE WHEN c.relkind IN ('v', 'm') THEN 'view'
                WHEN c.relkind <> 'S' THEN 'table'
                WHEN EXISTS (SELECT FROM pg_catalog.pg_depend i
                             WHERE i.classid = 'pg_catalog.pg_class'::regclass AND i.objid = c.oid AND i.deptype = 'i')
                THEN 'identity' ELSE 'sequence' END,
           c.relname, c.relowner, false, NULL, c.relrowsecurity,
           coalesce(c.relacl, acldefault(CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", c.relowner)), c.oid,
           substring(obj_description(c.oid, 'pg_class') FROM '^turno/(.*)$')
    FROM members m JOIN pg_catalog.pg_class c ON m.classid = 'pg_catalog.pg_class'::regclass AND c.oid = m.objid
    WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm', 'S')
), entries AS (
    SELECT t.schema, t.kind, t.name, NULL::name AS col, t.owner, a.*
    FROM things t, aclexplode(t.acl) a
    UNION ALL
    SELECT t.schema, t.kind, t.name, c.attname, t.owner, a.*
    FROM things t JOIN pg_catalog.pg_attribute c ON t.relation <> 0 AND c.attrelid = t.relation, aclexplode(c.attacl) a
)
SELECT t.schema, t.kind, t.name, pg_get_userbyid(t.owner), t.definer, t.config, t.row_security,
       coalesce(e.aces, '[]'), t.source
FROM things t
LEFT JOIN (
    SELECT schema, kind, name,
           jsonb_agg(jsonb_build_array(col, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(grantee) END,
                                       privilege_type, is_grantable)) AS aces
    FROM entries WHERE grantee <> owner GROUP BY schema, kind, name
) e USING (schema, kind, name)
"""
