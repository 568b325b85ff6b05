"""The rights that a provisioner needs if it is not a superuser; a missing right is refused by name before a change."""

from typing import Any

from psycopg import Connection, sql

from turno.errors import TurnoError
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.roles import GRANT_OPTIONS_SINCE, grant_to_provisioner


class CannotInstall(TurnoError):
    """The provisioner lacks a right, and the installation is unchanged; the message has the granting statement."""


def check_provisioner(admin: Connection[Any], logins: Logins) -> None:
    """Raise CannotInstall unless `admin` is a superuser, or may create roles and acts as the database's owner.

    From PostgreSQL 16 on, CREATEROLE is not enough for roles of another creator: each needs its ADMIN OPTION.
    """
    row = admin.execute(_PROVISIONER).fetchone()
    assert row is not None, "the session's role and database are in the catalog"  # noqa: S101
    is_superuser, may_create, owner, owns, give_owner = row
    if is_superuser:
        return
    name, database = _quoted(admin, admin.info.user, admin.info.dbname)
    if not may_create:
        raise CannotInstall(f"{name} may not create roles: ALTER ROLE {name} CREATEROLE")
    if not owns:
        other = f", or GRANT {_quoted(admin, owner)[0]} TO {name}" if give_owner else ""
        raise CannotInstall(
            f"{name} may not change access to the database {database}, which belongs to {owner}: "
            f"ALTER DATABASE {database} OWNER TO {name}{other}"
        )
    if admin.info.server_version < GRANT_OPTIONS_SINCE:
        return
    strange = admin.execute(_WITHOUT_ADMIN, [logins.role("")]).fetchall()
    if strange:
        role, maker = strange[0]
        raise CannotInstall(
            f"{name} may not change {len(strange)} roles of this installation, such as {role}, which {maker} made: "
            f"set {maker} in TURNO_ADMIN_DATABASE_URL, or as {maker} GRANT each of them TO {name} WITH ADMIN OPTION"
        )


def become_able_to_act(admin: Connection[Any], logins: Logins) -> None:
    """Let the provisioner SET ROLE to each owner of another provisioner, in the caller's transaction."""
    right = "SET" if admin.info.server_version >= GRANT_OPTIONS_SINCE else "MEMBER"
    for (owner,) in admin.execute(_OWNERS, [logins.role(""), right]).fetchall():
        grant_to_provisioner(admin, owner)


def _quoted(admin: Connection[Any], *names: str) -> list[str]:
    return [sql.Identifier(name).as_string(admin) for name in names]


_PROVISIONER = """
SELECT r.rolsuper, r.rolcreaterole, o.rolname, pg_has_role(o.oid, 'USAGE'), NOT o.rolsuper
FROM pg_catalog.pg_roles r, pg_catalog.pg_database d JOIN pg_catalog.pg_roles o ON o.oid = d.datdba
WHERE r.rolname = current_user AND d.datname = current_database()
"""
_WITHOUT_ADMIN = """
SELECT r.rolname, coalesce((SELECT m.member::regrole::text FROM pg_catalog.pg_auth_members m
                            WHERE m.roleid = r.oid AND m.admin_option ORDER BY m.oid LIMIT 1), 'a superuser')
FROM pg_catalog.pg_roles r
WHERE starts_with(r.rolname, %s) AND NOT pg_has_role(r.oid, 'MEMBER WITH ADMIN OPTION') ORDER BY 1
"""
_OWNERS = """
SELECT DISTINCT r.rolname FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_roles r ON r.oid = n.nspowner
WHERE starts_with(r.rolname, %s) AND NOT pg_has_role(r.oid, %s)
"""
