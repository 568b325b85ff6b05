"""The objects of our schemas in the catalog, each with its owner, settings and rights."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from psycopg import Connection

from turno.tenancy.rights.matrix import CatalogObject, Kind

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
    thing: CatalogObject
    owner: str
    definer: bool
    config: tuple[str, ...]
    row_security: bool
    aces: frozenset[Ace]
    source: str | None = None  # the source that made it, from its comment


def live_objects(admin: Connection[Any], schemas: Collection[str]) -> Iterator[LiveObject]:
    """Yield each object in these schemas on which rights can be granted."""
    rows = admin.execute(_LIVE, [list(schemas)])
    for schema, kind, name, owner, definer, config, row_security, aces, source in rows:
        yield LiveObject(
            schema=schema,
            thing=CatalogObject(Kind(kind), name),
            owner=owner,
            definer=definer,
            config=tuple(config or ()),
            row_security=row_security,
            aces=frozenset(Ace(*ace) for ace in aces),
            source=source,
        )


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
