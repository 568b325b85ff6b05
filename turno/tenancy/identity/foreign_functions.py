"""Views and policies of adopted schemas that call functions of the application: with the rights of their reader.

A view reads tables with its owner's rights, but its functions run as the role that queries it, and the functions of a
policy as the role that it filters. The report login of a company reads all branches, so it must not run a function that
the owner of one branch has written.
"""

from collections.abc import Sequence
from typing import Any, LiteralString

from psycopg import Connection

_CALLED: LiteralString = """
WITH RECURSIVE adopted AS (
    SELECT n.oid FROM pg_catalog.pg_namespace n
    WHERE n.nspname = ANY (%(schemas)s) AND n.nspname !~ '^t_[0-9a-f]{12}$'
), reached AS (
    SELECT c.oid AS named, c.oid FROM pg_catalog.pg_class c JOIN adopted a ON a.oid = c.relnamespace
    WHERE c.relkind = 'v'
    UNION
    SELECT r.named, c.oid FROM reached r JOIN pg_catalog.pg_rewrite w ON w.ev_class = r.oid
    JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.objid = w.oid
                               AND d.refclassid = 'pg_catalog.pg_class'::regclass
    JOIN pg_catalog.pg_class c ON c.oid = d.refobjid AND c.relkind = 'v'
), caller AS (
    SELECT 'view' AS kind, r.named::regclass::text AS name, 'pg_catalog.pg_rewrite'::regclass AS class, w.oid
    FROM reached r JOIN pg_catalog.pg_rewrite w ON w.ev_class = r.oid
    UNION ALL
    SELECT 'policy', format('%%I on %%s', p.polname, p.polrelid::regclass), 'pg_catalog.pg_policy'::regclass, p.oid
    FROM pg_catalog.pg_policy p JOIN pg_catalog.pg_class c ON c.oid = p.polrelid
    JOIN adopted a ON a.oid = c.relnamespace
)
SELECT DISTINCT k.kind, k.name, f.oid::regprocedure::text
FROM caller k
JOIN pg_catalog.pg_depend d ON d.classid = k.class AND d.objid = k.oid
LEFT JOIN pg_catalog.pg_operator o ON d.refclassid = 'pg_catalog.pg_operator'::regclass AND o.oid = d.refobjid
JOIN pg_catalog.pg_proc f
    ON f.oid = CASE d.refclassid WHEN 'pg_catalog.pg_proc'::regclass THEN d.refobjid ELSE o.oprcode END
JOIN pg_catalog.pg_roles w ON w.oid = f.proowner AND NOT w.rolsuper
ORDER BY 1, 2, 3
"""


def foreign_functions(session: Connection[Any], schemas: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return the views and policies of these schemas with a call of a function that no superuser owns.

    Each is a kind (view or policy), a name and the function's signature; Turno's own schemas are left out.
    """
    return session.execute(_CALLED, {"schemas": list(schemas)}).fetchall()
