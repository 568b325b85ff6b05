"""The rights that PostgreSQL gives to PUBLIC by default and an installation revokes."""

from collections.abc import Iterable
from typing import Any, LiteralString

import psycopg
from psycopg import Connection, sql

from turno.tenancy.identity.logins import Logins

# A session with advisory locks can block every other; a session that writes large objects or WAL can fill the disk.
_CLOSED: LiteralString = """
SELECT replace(p.oid::regprocedure::text, 'pg_catalog.', ''), p.oid
FROM pg_catalog.pg_proc p
WHERE p.pronamespace = 'pg_catalog'::regnamespace
  AND p.proname ~ '^(pg_(try_)?advisory_.*|pg_logical_emit_message|lo_(creat|create|from_bytea|import|export))$'
ORDER BY 1
"""


def closed_functions(admin: Connection[Any]) -> dict[str, int]:
    """Return the functions of this server that are revoked from PUBLIC: their OIDs by signature."""
    return dict(admin.execute(_CLOSED).fetchall())


def open_functions(logins: Logins) -> dict[str, frozenset[str]]:
    """Return the roles that may execute some of the closed functions, by signature.

    Tenants' functions count quotas, and publish events, under a lock, and log a replayed request so that its commit
    waits for a synchronous standby; the control role's migrations lock schemas.
    """
    return {
        "pg_advisory_xact_lock(integer,integer)": frozenset({logins.owners, logins.control}),
        "pg_advisory_xact_lock_shared(integer,integer)": frozenset({logins.owners}),
        "pg_logical_emit_message(boolean,text,text)": frozenset({logins.owners}),
        "pg_logical_emit_message(boolean,text,text,boolean)": frozenset({logins.owners}),
        "pg_try_advisory_xact_lock(integer,integer)": frozenset({logins.control}),
        "pg_try_advisory_lock(integer,integer)": frozenset({logins.control}),
        "pg_advisory_unlock(integer,integer)": frozenset({logins.control}),
    }


def close_database(admin: Connection[Any], logins: Logins) -> None:
    """Revoke these rights from PUBLIC; the catalog check reports the rights that `admin` cannot revoke."""
    database = sql.Identifier(admin.info.dbname)
    execute_if_allowed(admin, sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(database))
    if admin.execute("SELECT FROM pg_namespace WHERE nspname = 'public'").rowcount:
        execute_if_allowed(admin, sql.SQL("REVOKE ALL ON SCHEMA public FROM PUBLIC"))
    closed = closed_functions(admin)
    execute_if_allowed(admin, sql.SQL("REVOKE ALL ON FUNCTION {} FROM PUBLIC").format(words_sql(closed)))
    for signature, roles in open_functions(logins).items():
        if signature in closed:  # PostgreSQL 17 gave a parameter to pg_logical_emit_message
            names = sql.SQL(", ").join(sql.Identifier(role) for role in sorted(roles))
            grant = sql.SQL("GRANT EXECUTE ON FUNCTION {} TO {}")
            execute_if_allowed(admin, grant.format(words_sql([signature]), names))


def words_sql(words: Iterable[str]) -> sql.Composed:
    """Return functions or privileges of the server as a list; these words of the catalog are SQL already."""
    return sql.SQL(", ").join(sql.SQL(word) for word in words)


def grant_connect(admin: Connection[Any], *roles: str) -> None:
    """Grant CONNECT to these logins.

    By name, because a group would be a membership and a handler has none. 5,000 entries make a login 0.3 to 0.9 ms
    slower (measured on 18 and 15).
    """
    names = sql.SQL(", ").join(sql.Identifier(role) for role in roles)
    admin.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(sql.Identifier(admin.info.dbname), names))


def execute_if_allowed(admin: Connection[Any], statement: sql.SQL | sql.Composed) -> None:
    """Run a statement under a savepoint; ignore it if `admin` lacks the privilege."""
    try:
        with admin.transaction():
            admin.execute(statement)
    except psycopg.errors.InsufficientPrivilege:
        pass
