"""Install into a database: the service roles, the control schema, and the revoked rights of PUBLIC."""

import re
from typing import Any

import psycopg
from psycopg import Connection, sql

from turno.errors import TurnoError
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.roles import (
    GRANT_OPTIONS_SINCE,
    bound_temporary_files,
    close_defaults,
    ensure_roles,
    grant_to_provisioner,
    reserve_connections,
    service_roles,
)
from turno.tenancy.rights.public_rights import close_database, grant_connect, keep_for_hosts
from turno.tenancy.rights.schemas import control_schema
from turno.tenancy.schema_migrations.files import Migrations
from turno.tenancy.schema_migrations.locks import lock_roles
from turno.tenancy.schema_migrations.one_schema import bring_up

NOTED = re.compile(r"\s*(CREATE ROLE|ALTER ROLE|CREATE SCHEMA|GRANT|REVOKE|ALTER DEFAULT PRIVILEGES)\b", re.IGNORECASE)
SECRET = re.compile(r"PASSWORD '[^']*'")


class CannotInstall(TurnoError):
    """The provisioner lacks a right, and the installation is unchanged; the message has the granting statement."""


class PlanningConnection(psycopg.Connection[Any]):
    """Records each statement that creates a role or a schema or changes a right, without its password."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.noted: list[str] = []

    def execute(self, query: Any, params: Any = None, **options: Any) -> psycopg.Cursor[Any]:
        """Run the query, one statement or several of one line each, and record such statements."""
        text = query.as_string(self) if isinstance(query, sql.Composable) else query
        if isinstance(text, str):
            for statement in filter(NOTED.match, text.split(";\n")):
                self.noted.append(SECRET.sub("PASSWORD '…'", " ".join(statement.split())))
        return super().execute(query, params, **options)


def install(admin: Connection[Any], logins: Logins, *, migrations: Migrations | None = None) -> tuple[str, ...]:
    """Install or mend the installation; return the versions of the control schema that were applied.

    `admin` is idle, and a superuser or a CREATEROLE owner of the database. Rights that the latter may not revoke from
    PUBLIC stay open, and the catalog check reports them. Existing roles keep the rights that PUBLIC loses. Raises
    CannotInstall, having changed nothing.
    """
    control = control_schema(logins)
    check_provisioner(admin, logins)
    with admin.transaction():
        lock_roles(admin)
        ensure_roles(admin, logins, service_roles(logins))
        grant_to_provisioner(admin, control.owner)
        become_able_to_act(admin, logins)
        close_defaults(admin, control.owner)
        admin.execute(
            sql.SQL("CREATE SCHEMA IF NOT EXISTS {} AUTHORIZATION {}").format(
                sql.Identifier(control.name), sql.Identifier(control.owner)
            )
        )
        keep_for_hosts(admin, logins)
        close_database(admin, logins)
        grant_connect(admin, logins.engine, logins.web, logins.operator)
        reserve_connections(admin, logins)
    applied = bring_up(admin, control, migrations)
    bounded = admin.execute(
        "SELECT handler_role FROM turno.tenants WHERE state <> 'removed'"
        " UNION ALL SELECT report_role FROM turno.companies"
    )
    bound_temporary_files(admin, [role for (role,) in bounded.fetchall()])
    return applied


def plan_installation(admin: PlanningConnection, logins: Logins, *, migrations: Migrations | None = None) -> list[str]:
    """Return the statements in order; `admin` is idle. The transaction takes the locks of an installation."""
    admin.noted.clear()
    with admin.transaction(force_rollback=True):
        install(admin, logins, migrations=migrations)
    return list(admin.noted)


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
