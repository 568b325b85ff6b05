"""The rights of PUBLIC that an installation revokes: the roles that were there keep these rights as one group."""

from collections.abc import Iterable
from typing import Any, LiteralString, NamedTuple

import psycopg
from psycopg import Connection, sql

from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.roles import GRANT_OPTIONS_SINCE, Membership, ensure_memberships, existing_roles
from turno.tenancy.rights.live import role_sql

# A session with advisory locks can block every other; a session that writes large objects or WAL can fill the disk.
_CLOSED: LiteralString = """
SELECT replace(p.oid::regprocedure::text, 'pg_catalog.', ''), p.oid
FROM pg_catalog.pg_proc p
WHERE p.pronamespace = 'pg_catalog'::regnamespace
  AND p.proname ~ '^(pg_(try_)?advisory_.*|pg_logical_emit_message|lo_(creat|create|from_bytea|import|export))$'
ORDER BY 1
"""


class Host(NamedTuple):
    """A role of the application that uses this database; `inherits` is its INHERIT attribute."""

    name: str
    inherits: bool


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


def public_rights(admin: Connection[Any], role: str = "public") -> list[sql.Composed]:
    """Return the present rights of PUBLIC, or of a role, that an installation revokes: GRANTs without a grantee."""
    row = admin.execute(
        """
        SELECT array(SELECT w FROM unnest('{CONNECT,CREATE,TEMPORARY}'::text[]) w
                     WHERE has_database_privilege(%(role)s, current_database(), w)),
               array(SELECT w FROM unnest('{CREATE,USAGE}'::text[]) w
                     WHERE has_schema_privilege(%(role)s, to_regnamespace('public'), w)),
               array(SELECT s FROM unnest(%(functions)s::text[]) s WHERE has_function_privilege(%(role)s, s, 'EXECUTE'))
        """,
        {"role": role, "functions": list(closed_functions(admin))},
    ).fetchone()
    assert row is not None, "a query without a table has one row"  # noqa: S101
    words = [words_sql(present) for present in row]
    grants = (
        sql.SQL("GRANT {} ON DATABASE {}").format(words[0], sql.Identifier(admin.info.dbname)),
        sql.SQL("GRANT {} ON SCHEMA public").format(words[1]),
        sql.SQL("GRANT EXECUTE ON FUNCTION {}").format(words[2]),
    )
    return [grant for grant, present in zip(grants, row, strict=True) if present]


def group_rights(admin: Connection[Any], logins: Logins) -> list[sql.Composed]:
    """Return the rights of the group of existing roles; none if there is no such group."""
    return public_rights(admin, logins.host) if any(existing_roles(admin, [logins.host])) else []


def grant_each(admin: Connection[Any], rights: Iterable[sql.Composed], grantee: str) -> None:
    """Grant these rights to a role or to PUBLIC; a right that `admin` may not grant is left out."""
    for right in rights:
        execute_if_allowed(admin, right + sql.SQL(" TO ") + role_sql(grantee))


def hosts(admin: Connection[Any]) -> list[Host]:
    """Return the roles of the cluster that are neither the server's, nor a superuser's, nor Turno's."""
    rows = admin.execute(
        r"""
        SELECT rolname, rolinherit FROM pg_catalog.pg_roles
        WHERE NOT rolsuper AND rolname !~ '^pg_' AND rolname !~ '^turno_[a-z0-9]{1,12}_' AND rolname <> current_user
        ORDER BY 1
        """
    )
    return [Host(*row) for row in rows]


def foreign_schemas(admin: Connection[Any]) -> list[str]:
    """Return the schemas of the application."""
    rows = admin.execute(
        r"""
        SELECT n.nspname FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_roles r ON r.oid = n.nspowner
        WHERE n.nspname !~ '^pg_' AND n.nspname NOT IN ('public', 'information_schema')
          AND r.rolname !~ '^turno_[a-z0-9]{1,12}_' ORDER BY 1
        """
    )
    return [name for (name,) in rows]


def keep_for_hosts(admin: Connection[Any], logins: Logins) -> None:
    """Grant the rights that PUBLIC is about to lose to a group of all existing roles, in the caller's transaction.

    A second installation does nothing: roles created after the first never had these rights.
    """
    rights = public_rights(admin)
    if not rights:
        return
    grant_each(admin, rights, logins.host)
    for host in hosts(admin):
        join_host(admin, logins, host)


def join_host(admin: Connection[Any], logins: Logins, host: Host) -> None:
    """Make a role a member of the group; before PostgreSQL 16 a NOINHERIT role is granted the rights by name."""
    ensure_memberships(admin, [Membership(logins.host, host.name, inherits=True)])
    if admin.info.server_version < GRANT_OPTIONS_SINCE and not host.inherits:
        grant_each(admin, group_rights(admin, logins), host.name)
