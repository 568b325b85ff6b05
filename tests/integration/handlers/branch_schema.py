"""A branch's schema with the business tables, as the migration leaves it."""

from typing import Any

import psycopg
from psycopg import Connection, sql

from tests.installation import TABLES

STEPS = ("0001_invoicing", "0002_credit_notes", "0003_tax_authority")


def connect(database: str, schema: str) -> Connection[Any]:
    """Open an autocommit session with the branch's tables as unqualified names."""
    return psycopg.connect(database, autocommit=True, options=f"-c search_path={schema}")


def create_branch(database: str, schema: str) -> Connection[Any]:
    connection = connect(database, schema)
    connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    for name in STEPS:
        run_migration(connection, f"{name}.sql")
    return connection


def run_migration(connection: Connection[Any], name: str) -> None:
    connection.execute((TABLES / name).read_bytes())
