"""The functions and rights of a schema, defined again whenever their text changes.

Each function and table has the comment `turno/<source>`. Objects of a source without a folder stay, so that its
triggers keep its tables consistent, and have no rights.
"""

import hashlib
from collections.abc import Iterable
from typing import Any

from psycopg import Connection, sql

from turno.capability import LIBRARY, installed
from turno.tenancy.rights.apply_grants import KIND_SQL, apply_grants
from turno.tenancy.rights.matrix import Kind
from turno.tenancy.rights.privileges import LiveObject, live_objects
from turno.tenancy.rights.schemas import Schema
from turno.tenancy.schema_migrations.files import Files

UNCHECKED = "SET LOCAL check_function_bodies = {};"


def digest_of(schema_matrix_digest: str, files: Files) -> str:
    """Return a digest that changes with each right and with the text of each function."""
    return hashlib.sha256(f"{schema_matrix_digest} {files.digest}".encode()).hexdigest()


def define(admin: Connection[Any], schema: Schema, files: Files) -> bool:
    """Define the functions and rights as the files and the matrix state; return whether a right changed.

    A function of a present source that is no longer in the files is dropped; other functions stay.
    Runs as the schema's owner on its search_path, inside the caller's transaction.
    """
    texts = [script.text for script in (files.functions or {}).values()]
    # One message, unchecked until the first call outside the tests: both are expensive for each tenant.
    admin.execute("\n".join([UNCHECKED.format("off"), *texts, UNCHECKED.format("on")]).encode(), prepare=False)
    functions = files.function_sources
    kept: list[LiveObject] = []
    for one in live_objects(admin, [schema.name]):
        if one.thing.kind is Kind.FUNCTION and one.source in files.sources and one.thing.name not in functions:
            admin.execute(sql.SQL("DROP FUNCTION {}").format(sql.Identifier(one.thing.name)))
        else:
            kept.append(one)
    _comment(admin, schema, functions, kept)
    return apply_grants(admin, schema, kept)


def _comment(admin: Connection[Any], schema: Schema, functions: dict[str, str], live: Iterable[LiveObject]) -> None:
    """Write the source of each function and relation into the catalog."""
    relations = dict.fromkeys(schema.matrix.relations, LIBRARY)
    for one in installed():
        relations |= dict.fromkeys((one.tenant if schema.slug else one.control).relations, one.name)
    comments = []
    for found in live:
        kind, name = found.thing
        source = functions.get(name) if kind is Kind.FUNCTION else relations.get(name)
        if source not in (None, found.source):
            word = sql.SQL("VIEW") if kind is Kind.VIEW else KIND_SQL[kind]
            values = word, sql.Identifier(name), sql.Literal(f"turno/{source}")
            comments.append(sql.SQL("COMMENT ON {} {} IS {}").format(*values))
    if comments:
        admin.execute(sql.SQL(";\n").join(comments))
