"""The installation's roles: their attributes and memberships."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from psycopg import Connection, sql
from psycopg.errors import InsufficientPrivilege

from turno.tenancy.identity.logins import Logins

REPORT_CONNECTIONS = 16  # sessions of one company's consolidated reports
TENANT_CONNECTIONS = 16  # sessions of one tenant's handlers: a host's eight children, with two each
RESERVED = "pg_use_reserved_connections"
GRANT_OPTIONS_SINCE = 160000
# The limit of temporary files on the server's disk for a session with SQL of a tenant or a company.
TEMP_FILE_LIMIT = "1GB"


@dataclass(frozen=True, slots=True)
class RoleSpec:
    """The attributes of a role; no role of ours has more. A `bounded` role runs SQL of others."""

    name: str
    login: bool = False
    inherit: bool = False
    connections: int = -1
    epoch: int = 0
    bounded: bool = False


class Membership(NamedTuple):
    """`member` is in `role`: it has the role's rights at once, or may become the role, never both."""

    role: str
    member: str
    inherits: bool


def service_roles(logins: Logins) -> list[RoleSpec]:
    """Return the roles that belong to no tenant."""
    return [
        RoleSpec(logins.control),
        RoleSpec(logins.owners),
        RoleSpec(logins.host),
        RoleSpec(logins.handlers),
        RoleSpec(logins.engine, login=True),
        RoleSpec(logins.web, login=True),
        RoleSpec(logins.operator, login=True),
    ]


def tenant_roles(
    owner: str,
    handler: str,
    api: str,
    *,
    readers: str | None,
    epoch: int = 0,
    connections: int = TENANT_CONNECTIONS,
) -> list[RoleSpec]:
    """Return one tenant's roles; `readers` is the group of the handlers of its children."""
    return [
        # The owner inherits, because its functions use the rights of the owners' group at once.
        RoleSpec(owner, inherit=True),
        # It inherits, because it reads shared look-up schemas, and its parent's data, as a member of a group.
        RoleSpec(handler, login=True, inherit=True, connections=connections, epoch=epoch, bounded=True),
        RoleSpec(api),
        *([RoleSpec(readers)] if readers else []),
    ]


def report_role(name: str, *, epoch: int = 0) -> RoleSpec:
    """Return the login of a company's reports."""
    return RoleSpec(name, login=True, connections=REPORT_CONNECTIONS, epoch=epoch, bounded=True)


def tenant_memberships(
    logins: Logins, owner: str, handler: str, api: str, *, sharing: bool, parent_readers: str | None
) -> list[Membership]:
    """Return the memberships of a tenant's roles; a handler has none, unless it has a parent or schemas are shared."""
    return [
        *([Membership(parent_readers, handler, inherits=True)] if parent_readers else []),
        *([Membership(logins.handlers, handler, inherits=True)] if sharing else []),
        Membership(logins.owners, owner, inherits=True),
        # A rescue ends a dead attempt's backend: the server allows that to members of its role.
        Membership(handler, owner, inherits=True),
        Membership(api, logins.web, inherits=False),
    ]


def reserved_memberships(admin: Connection[Any], logins: Logins) -> list[Membership]:
    """Return the memberships that give the services the server's reserved connections; none before PostgreSQL 16."""
    if admin.info.server_version < GRANT_OPTIONS_SINCE:
        return []
    return [Membership(RESERVED, role, inherits=True) for role in (logins.engine, logins.web, logins.operator)]


def ensure_roles(admin: Connection[Any], logins: Logins, specs: Iterable[RoleSpec]) -> None:
    """Create the missing roles, and set the attributes and passwords of all roles."""
    specs = list(specs)
    existing = set(existing_roles(admin, [spec.name for spec in specs]))
    for spec in specs:
        verb = sql.SQL("ALTER ROLE" if spec.name in existing else "CREATE ROLE")
        admin.execute(sql.SQL("{} {} {}").format(verb, sql.Identifier(spec.name), _attributes(admin, logins, spec)))
    bound_temporary_files(admin, [spec.name for spec in specs if spec.bounded])


def _attributes(admin: Connection[Any], logins: Logins, spec: RoleSpec) -> sql.Composed:
    attributes = [
        sql.SQL("LOGIN" if spec.login else "NOLOGIN"),
        sql.SQL("INHERIT" if spec.inherit else "NOINHERIT"),
        sql.SQL("CONNECTION LIMIT {}").format(sql.Literal(spec.connections)),
    ]
    if spec.login:
        attributes.append(_password(admin, spec.name, logins.password(spec.name, spec.epoch)))
    return sql.SQL(" ").join(attributes)


def _password(admin: Connection[Any], role: str, password: str) -> sql.Composed:
    """Return the clause with the verifier of a password: the server never receives a password, nor does its log.

    One iteration, because the password is a 256-bit HMAC, which cannot be guessed at any speed, and each login saves
    the client 4,096 rounds.
    """
    if admin.info.server_version >= GRANT_OPTIONS_SINCE:
        admin.execute("SELECT set_config('scram_iterations', '1', true)")
    verifier = admin.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
    return sql.SQL("PASSWORD {}").format(sql.Literal(verifier))


def set_password(admin: Connection[Any], logins: Logins, role: str, epoch: int) -> None:
    """Give a login the password of this epoch."""
    clause = _password(admin, role, logins.password(role, epoch))
    admin.execute(sql.SQL("ALTER ROLE {} {}").format(sql.Identifier(role), clause))


def reset_settings(admin: Connection[Any], role: str) -> None:
    """Remove the defaults that a role has set for itself, in every database."""
    rows = admin.execute(
        """
        SELECT d.datname FROM pg_catalog.pg_db_role_setting s
        JOIN pg_catalog.pg_roles r ON r.oid = s.setrole AND r.rolname = %s
        LEFT JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase
        """,
        [role],
    ).fetchall()
    for (database,) in rows:
        in_database = sql.SQL("") if database is None else sql.SQL(" IN DATABASE {}").format(sql.Identifier(database))
        admin.execute(sql.SQL("ALTER ROLE {}{} RESET ALL").format(sql.Identifier(role), in_database))


def bound_temporary_files(admin: Connection[Any], roles: Iterable[str]) -> None:
    """Limit the temporary files of these logins' sessions, which cannot raise the limit; an existing limit stays.

    This needs a superuser or the SET right on the parameter; the catalog check reports logins without a limit.
    """
    unbounded = admin.execute(
        """
        SELECT r.rolname FROM pg_catalog.pg_roles r WHERE r.rolname = ANY (%s) AND NOT EXISTS (
            SELECT FROM pg_catalog.pg_db_role_setting s, unnest(s.setconfig) setting
            WHERE s.setrole = r.oid AND s.setdatabase = 0 AND setting ~ '^temp_file_limit=[0-9]')
        """,
        [list(roles)],
    ).fetchall()
    bound = sql.SQL("ALTER ROLE {} SET temp_file_limit = {}")
    with suppress(InsufficientPrivilege), admin.transaction():
        for (role,) in unbounded:
            admin.execute(bound.format(sql.Identifier(role), sql.Literal(TEMP_FILE_LIMIT)))


def reserve_connections(admin: Connection[Any], logins: Logins) -> None:
    """Let the services connect while handlers use every other connection; the catalog check reports a lack of this.

    A superuser may grant it, or a role that has `pg_use_reserved_connections` with the admin option.
    """
    with suppress(InsufficientPrivilege), admin.transaction():
        ensure_memberships(admin, reserved_memberships(admin, logins))


def close_defaults(admin: Connection[Any], owner: str) -> None:
    """Revoke EXECUTE from PUBLIC by default for functions that this owner creates."""
    revoke = "ALTER DEFAULT PRIVILEGES FOR ROLE {} REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC"
    admin.execute(sql.SQL(revoke).format(sql.Identifier(owner)))


def ensure_memberships(admin: Connection[Any], memberships: Iterable[Membership]) -> None:
    """Grant each membership with exactly its use."""
    for role, member, inherits in memberships:
        grant = sql.SQL("GRANT {} TO {}").format(sql.Identifier(role), sql.Identifier(member))
        if admin.info.server_version >= GRANT_OPTIONS_SINCE:
            grant += sql.SQL(" WITH INHERIT TRUE, SET FALSE" if inherits else " WITH INHERIT FALSE, SET TRUE")
        admin.execute(grant)


def grant_to_provisioner(admin: Connection[Any], role: str) -> None:
    """Grant a role to a provisioner that is no superuser, so that it may SET ROLE to it."""
    if admin.info.parameter_status("is_superuser") == "on":
        return
    use = sql.SQL(" WITH INHERIT TRUE, SET TRUE" if admin.info.server_version >= GRANT_OPTIONS_SINCE else "")
    admin.execute(sql.SQL("GRANT {} TO CURRENT_USER").format(sql.Identifier(role)) + use)


def drop_roles(admin: Connection[Any], roles: Iterable[str]) -> None:
    """Drop these roles with all their rights in this database; a missing role is no error."""
    existing = list(existing_roles(admin, roles))
    for role in existing:
        grant_to_provisioner(admin, role)
    for role in existing:
        admin.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(role)))


def existing_roles(admin: Connection[Any], roles: Iterable[str]) -> Iterator[str]:
    """Yield the existing roles of these, in the given order."""
    rows = admin.execute(
        "SELECT n FROM unnest(%s::text[]) WITH ORDINALITY AS names (n, i) JOIN pg_roles r ON r.rolname = n ORDER BY i",
        [list(roles)],
    )
    return (name for (name,) in rows)
