"""Rights that an installation revokes from PUBLIC: existing roles keep these rights as members of one group."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from psycopg import Connection, sql

from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.roles import GRANT_OPTIONS_SINCE, existing_roles
from turno.tenancy.rights.apply_grants import role_sql
from turno.tenancy.rights.public_rights import closed_functions, execute_if_allowed, words_sql


@dataclass(frozen=True, slots=True)
class Host:
    """A role of the application that uses this database; `inherits` is its INHERIT attribute."""

    name: str
    inherits: bool


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
    words = [words_sql(found) for found in row]
    grants = (
        sql.SQL("GRANT {} ON DATABASE {}").format(words[0], sql.Identifier(admin.info.dbname)),
        sql.SQL("GRANT {} ON SCHEMA public").format(words[1]),
        sql.SQL("GRANT EXECUTE ON FUNCTION {}").format(words[2]),
    )
    return [grant for grant, found in zip(grants, row, strict=True) if found]


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
    return [Host(name, inherits) for name, inherits in rows]


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
    group, name = sql.Identifier(logins.host), sql.Identifier(host.name)
    if admin.info.server_version >= GRANT_OPTIONS_SINCE:
        admin.execute(sql.SQL("GRANT {} TO {} WITH INHERIT TRUE, SET FALSE").format(group, name))
        return
    admin.execute(sql.SQL("GRANT {} TO {}").format(group, name))
    if not host.inherits:
        grant_each(admin, group_rights(admin, logins), host.name)
