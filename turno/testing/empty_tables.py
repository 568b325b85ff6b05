"""Empty the tables of an installation between two tests."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import errors, sql

FEW_PAGES = 16 * 8192  # bytes; a larger table would leave enough dead rows to change plans and walks


def tables_without_rows(
    admin: psycopg.Connection[Any], schemas: Sequence[str], *, kept: Sequence[str], emptied: Collection[str]
) -> list[sql.Identifier]:
    """Return the tables of these schemas that are empty now or named in `emptied`.

    Tables in `kept` and tables with a reference to them are left out.
    """
    listed = """
        SELECT c.relnamespace::regnamespace::text, c.relname FROM pg_class c
        WHERE c.relkind = 'r' AND c.relnamespace::regnamespace::text = ANY (%(schemas)s) AND c.relname <> ALL (%(kept)s)
          AND NOT EXISTS (SELECT FROM pg_constraint r JOIN pg_class k ON k.oid = r.confrelid
                          WHERE r.conrelid = c.oid AND r.contype = 'f' AND k.relname = ANY (%(kept)s))
    """
    parameters = {"schemas": list(schemas), "kept": list(kept)}
    tables = [(sql.Identifier(*names), names[1] in emptied) for names in admin.execute(listed, parameters)]
    first_row = sql.SQL("SELECT FROM {} LIMIT 1")
    return [table for table, named in tables if named or not admin.execute(first_row.format(table)).rowcount]


def empty(admin: psycopg.Connection[Any], tables: Sequence[sql.Identifier]) -> None:
    """Remove the rows of these tables, by TRUNCATE only for many rows; raises if another session uses them."""
    # A worker of another fixture may still be ending, with its locks.
    for _ in range(5):
        with suppress(errors.DeadlockDetected), admin.transaction():
            names = [table.as_string(admin) for table in tables]
            sizes = admin.execute("SELECT pg_relation_size(n::regclass) FROM unnest(%s::text[]) AS n", [names])
            used = [(table, size) for table, (size,) in zip(tables, sizes, strict=True) if size]
            if any(size > FEW_PAGES for _, size in used):
                admin.execute(sql.SQL("TRUNCATE {}").format(sql.SQL(", ").join(tables)))
            elif used:
                # Twenty times as fast as TRUNCATE, which makes new files for the tables and all their indexes.
                deletes = (sql.SQL("DELETE FROM {}").format(table) for table, _ in used)
                admin.execute("SET LOCAL session_replication_role = replica")
                admin.execute(sql.SQL("; ").join(deletes))
            return
    raise AssertionError("a session still uses the tables of a test that ended: wait for its end in that test")
