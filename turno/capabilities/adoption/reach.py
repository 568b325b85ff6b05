"""The relations of a schema through which a reader reaches other schemas, and the tables of its sequences."""

from collections.abc import Collection
from typing import Any, LiteralString

from psycopg import Connection


def reaching_out(admin: Connection[Any], schema: str, shared: Collection[str]) -> set[str]:
    """Return the relations that read other schemas or servers without a right of the reader, directly or not.

    A view runs as its owner, and a table reads its partitions. Schemas that every handler may read do not count.
    """
    rows = admin.execute(_REACHING, {"schema": schema, "shared": ["pg_catalog", *shared]})
    return {name for (name,) in rows}


def numbered_tables(admin: Connection[Any], schema: str) -> dict[str, str]:
    """Return the table that each sequence of the schema numbers."""
    return dict(admin.execute(_NUMBERED, {"schema": schema}).fetchall())


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
_NUMBERED: LiteralString = """
SELECT s.relname, t.relname
FROM pg_catalog.pg_class s
JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = s.oid
                           AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.deptype = 'a'
JOIN pg_catalog.pg_class t ON t.oid = d.refobjid
WHERE s.relkind = 'S' AND s.relnamespace = to_regnamespace(quote_ident(%(schema)s))
"""
