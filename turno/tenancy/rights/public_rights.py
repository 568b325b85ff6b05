"""The rights that PostgreSQL gives to PUBLIC by default and an installation revokes."""

from typing import Any, LiteralString

import psycopg
from psycopg import Connection, sql

from turno.tenancy.identity.logins import Logins

# A session that takes advisory locks can block every other; one that writes large objects or WAL can fill the disk.
CLOSED_FUNCTIONS: tuple[LiteralString, ...] = (
    "pg_advisory_lock(bigint)",
    "pg_advisory_lock(integer,integer)",
    "pg_advisory_lock_shared(bigint)",
    "pg_advisory_lock_shared(integer,integer)",
    "pg_advisory_unlock(bigint)",
    "pg_advisory_unlock(integer,integer)",
    "pg_advisory_unlock_all()",
    "pg_advisory_unlock_shared(bigint)",
    "pg_advisory_unlock_shared(integer,integer)",
    "pg_advisory_xact_lock(bigint)",
    "pg_advisory_xact_lock(integer,integer)",
    "pg_advisory_xact_lock_shared(bigint)",
    "pg_advisory_xact_lock_shared(integer,integer)",
    "pg_try_advisory_lock(bigint)",
    "pg_try_advisory_lock(integer,integer)",
    "pg_try_advisory_lock_shared(bigint)",
    "pg_try_advisory_lock_shared(integer,integer)",
    "pg_try_advisory_xact_lock(bigint)",
    "pg_try_advisory_xact_lock(integer,integer)",
    "pg_try_advisory_xact_lock_shared(bigint)",
    "pg_try_advisory_xact_lock_shared(integer,integer)",
    "lo_creat(integer)",
    "lo_create(oid)",
    "lo_from_bytea(oid,bytea)",
    "lo_import(text)",
    "lo_import(text,oid)",
    "lo_export(oid,text)",
    "pg_logical_emit_message(boolean,text,text)",
    "pg_logical_emit_message(boolean,text,bytea)",
    "pg_logical_emit_message(boolean,text,text,boolean)",
    "pg_logical_emit_message(boolean,text,bytea,boolean)",
)


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
    here = admin.execute(
        "SELECT s FROM unnest(%s::text[]) WITH ORDINALITY AS u (s, n) WHERE to_regprocedure(s) IS NOT NULL ORDER BY n",
        [list(CLOSED_FUNCTIONS)],
    )
    known = [signature for (signature,) in here]
    closed = sql.SQL(", ").join(sql.SQL(signature) for signature in known)
    execute_if_allowed(admin, sql.SQL("REVOKE ALL ON FUNCTION {} FROM PUBLIC").format(closed))
    for signature, roles in open_functions(logins).items():
        if signature not in known:
            continue  # PostgreSQL 17 gave a parameter to pg_logical_emit_message
        names = sql.SQL(", ").join(sql.Identifier(role) for role in sorted(roles))
        execute_if_allowed(admin, sql.SQL("GRANT EXECUTE ON FUNCTION {} TO {}").format(sql.SQL(signature), names))


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
