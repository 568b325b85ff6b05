"""What a schema has beside its tables, made anew whenever its text changes: its functions, and who may do what."""

import hashlib
from typing import Any

from psycopg import Connection, sql

from turno.tenancy.rights.apply_grants import apply_grants
from turno.tenancy.rights.schemas import Schema
from turno.tenancy.schema_migrations.files import Files

UNCHECKED = "SET LOCAL check_function_bodies = {};"


def digest_of(schema_matrix_digest: str, files: Files) -> str:
    """Return what changes whenever a right or the text of a function does."""
    return hashlib.sha256(f"{schema_matrix_digest} {files.digest}".encode()).hexdigest()


def define(admin: Connection[Any], schema: Schema, files: Files) -> bool:
    """Make functions and rights what the files and the matrix say; return whether a right was not.

    Functions that an earlier definition made and these files no longer have are dropped; those of others stay.
    Runs as the schema's owner on its search_path, inside the caller's transaction.
    """
    _drop(admin, _defined(admin) - files.function_names)
    texts = [script.text for script in (files.functions or {}).values()]
    # All in one message, and read by nobody but the tests before their first call: both are dear, tenant by tenant.
    admin.execute("\n".join([UNCHECKED.format("off"), *texts, UNCHECKED.format("on")]).encode(), prepare=False)
    admin.execute("DELETE FROM schema_functions")
    admin.execute("INSERT INTO schema_functions (name) SELECT unnest(%s::text[])", [sorted(files.function_names)])
    return apply_grants(admin, schema)


def undefine(admin: Connection[Any]) -> None:
    """Drop every function that a definition made; runs after the tables are gone."""
    _drop(admin, _defined(admin))
    admin.execute("DELETE FROM schema_functions")


def _defined(admin: Connection[Any]) -> frozenset[str]:
    admin.execute("CREATE TABLE IF NOT EXISTS schema_functions (name text PRIMARY KEY)")
    return frozenset(name for (name,) in admin.execute("SELECT name FROM schema_functions"))


def _drop(admin: Connection[Any], names: frozenset[str]) -> None:
    for name in sorted(names):
        admin.execute(sql.SQL("DROP FUNCTION IF EXISTS {}").format(sql.Identifier(name)))
