"""The functions and rights of a schema, defined again whenever their text changes.

Each function and table has the comment `turno/<source>`. Objects of a source whose folder is gone stay, so that its
triggers keep its tables consistent, and have no rights.
"""

import hashlib
from typing import Any

from psycopg import Connection, sql

from turno.capability import LIBRARY, installed
from turno.tenancy.rights.apply_grants import apply_grants
from turno.tenancy.rights.schemas import Schema
from turno.tenancy.schema_migrations.files import Files

UNCHECKED = "SET LOCAL check_function_bodies = {};"
# Name, kind and source of each function and relation.
OBJECTS = """
SELECT p.proname, 'FUNCTION', substring(obj_description(p.oid, 'pg_proc') FROM '^turno/(.*)$')
FROM pg_catalog.pg_proc p WHERE p.pronamespace = current_schema()::regnamespace
UNION ALL
SELECT c.relname, CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END,
       substring(obj_description(c.oid, 'pg_class') FROM '^turno/(.*)$')
FROM pg_catalog.pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p', 'v')
"""


def digest_of(schema_matrix_digest: str, files: Files) -> str:
    """Return a digest that changes with each right and with the text of each function."""
    return hashlib.sha256(f"{schema_matrix_digest} {files.digest}".encode()).hexdigest()


def define(admin: Connection[Any], schema: Schema, files: Files) -> bool:
    """Define the functions and rights as the files and the matrix state; return whether a right changed.

    A function of a present source that is no longer in the files is dropped; other functions stay.
    Runs as the schema's owner on its search_path, inside the caller's transaction.
    """
    wanted = files.function_sources
    for name, kind, source in admin.execute(OBJECTS).fetchall():
        if kind == "FUNCTION" and source in files.sources and name not in wanted:
            admin.execute(sql.SQL("DROP FUNCTION {}").format(sql.Identifier(name)))
    texts = [script.text for script in (files.functions or {}).values()]
    # One message, unchecked until the first call outside the tests: both are expensive for each tenant.
    admin.execute("\n".join([UNCHECKED.format("off"), *texts, UNCHECKED.format("on")]).encode(), prepare=False)
    _comment(admin, schema, wanted)
    return apply_grants(admin, schema)


def _comment(admin: Connection[Any], schema: Schema, functions: dict[str, str]) -> None:
    """Write the source of each function and relation into the catalog."""
    relations = dict.fromkeys(schema.matrix.relations, LIBRARY)
    for one in installed():
        relations |= dict.fromkeys((one.tenant if schema.slug else one.control).relations, one.name)
    comments = [
        sql.SQL("COMMENT ON {} {} IS {}").format(sql.SQL(kind), sql.Identifier(name), sql.Literal(f"turno/{wanted}"))
        for name, kind, source in admin.execute(OBJECTS).fetchall()
        if (wanted := (functions if kind == "FUNCTION" else relations).get(name, source)) != source
    ]
    if comments:
        admin.execute(sql.SQL(";\n").join(comments))
