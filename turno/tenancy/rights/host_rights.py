"""Rights that an installation revokes from PUBLIC: existing roles keep these rights as members of one group."""

from dataclasses import dataclass
from typing import Any

from psycopg import Connection, sql

from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.roles import GRANT_OPTIONS_SINCE, existing_roles
from turno.tenancy.rights.public_rights import closed_functions, execute_if_allowed, signatures_sql


@dataclass(frozen=True, slots=True)
class PublicRights:
    """Rights of PUBLIC, or of a role, among the rights that an installation revokes."""

    database: tuple[str, ...]
    schema: tuple[str, ...]  # named public
    functions: tuple[str, ...]

    def __bool__(self) -> bool:
        """Return whether there is a right to revoke."""
        return bool(self.database or self.schema or self.functions)

    def statements(self, database: str, grantee: str | None) -> list[sql.Composed]:
        """Return the statements that grant these rights to a role, or with None to PUBLIC."""
        to = sql.SQL("PUBLIC") if grantee is None else sql.Identifier(grantee)
        grants = []
        if self.database:
            words = sql.SQL(", ").join(map(sql.SQL, self.database))
            grants.append(sql.SQL("GRANT {} ON DATABASE {} TO {}").format(words, sql.Identifier(database), to))
        if self.schema:
            words = sql.SQL(", ").join(map(sql.SQL, self.schema))
            grants.append(sql.SQL("GRANT {} ON SCHEMA public TO {}").format(words, to))
        if self.functions:
            names = signatures_sql(self.functions)
            grants.append(sql.SQL("GRANT EXECUTE ON FUNCTION {} TO {}").format(names, to))
        return grants


@dataclass(frozen=True, slots=True)
class Host:
    """A role of the application that uses this database; `inherits` is its INHERIT attribute."""

    name: str
    inherits: bool


def public_rights(admin: Connection[Any]) -> PublicRights:
    """Return the present rights of PUBLIC that an installation revokes."""
    return _rights_of(admin, "public")


def group_rights(admin: Connection[Any], logins: Logins) -> PublicRights:
    """Return the rights of the group of existing roles; none if there is no such group."""
    return _rights_of(admin, logins.host) if any(existing_roles(admin, [logins.host])) else PublicRights((), (), ())


def _rights_of(admin: Connection[Any], role: str) -> PublicRights:
    words = admin.execute(
        """
        SELECT array(SELECT w FROM unnest('{CONNECT,CREATE,TEMPORARY}'::text[]) w
                     WHERE has_database_privilege(%(role)s, current_database(), w)),
               array(SELECT w FROM unnest('{CREATE,USAGE}'::text[]) w
                     WHERE has_schema_privilege(%(role)s, to_regnamespace('public'), w)),
               array(SELECT s FROM unnest(%(functions)s::text[]) s WHERE has_function_privilege(%(role)s, s, 'EXECUTE'))
        """,
        {"role": role, "functions": list(closed_functions(admin))},
    ).fetchone()
    assert words is not None, "a query without a table has one row"  # noqa: S101
    return PublicRights(*map(tuple, words))


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
    for statement in rights.statements(admin.info.dbname, logins.host):
        execute_if_allowed(admin, statement)
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
        for statement in group_rights(admin, logins).statements(admin.info.dbname, host.name):
            execute_if_allowed(admin, statement)
