"""Check every role of the installation: its attributes, its memberships and its own settings."""

import re
from collections.abc import Iterator
from typing import Any

from psycopg import Connection

from turno.tenancy.catalog.finding import INSTALL, Finding
from turno.tenancy.identity.roles import GRANT_OPTIONS_SINCE, RESERVED, Membership
from turno.tenancy.provisioning.installation import Installation

EVERYWHERE = "every database"
BOUND = re.compile(r"temp_file_limit=\d")  # -1 means no limit
RESET_LOGIN = "run `turno tenant reset-login`, and investigate the change"


def check_roles(admin: Connection[Any], installation: Installation) -> Iterator[Finding]:
    """Yield the findings about the roles of this installation."""
    yield from _check_roles(admin, installation)
    yield from _check_memberships(admin, installation)
    yield from _check_settings(admin, installation)
    for slug in installation.unfinished:
        yield Finding(f"tenant {slug}", "was provisioned half-way", "run `turno tenant add` for it again")


def _check_roles(admin: Connection[Any], installation: Installation) -> Iterator[Finding]:
    rows = admin.execute(
        """
        SELECT rolname, rolcanlogin, rolinherit, rolconnlimit,
               array_remove(ARRAY[CASE WHEN rolsuper THEN 'SUPERUSER' END, CASE WHEN rolbypassrls THEN 'BYPASSRLS' END,
                                  CASE WHEN rolcreaterole THEN 'CREATEROLE' END,
                                  CASE WHEN rolcreatedb THEN 'CREATEDB' END,
                                  CASE WHEN rolreplication THEN 'REPLICATION' END], NULL)
        FROM pg_catalog.pg_roles WHERE starts_with(rolname, %s)
        """,
        [installation.prefix],
    )
    found = {name: attributes for name, *attributes in rows}
    for name in sorted(installation.roles.keys() - found.keys()):
        yield Finding(f"role {name}", "is missing", "run `turno db migrate`, or `turno tenant add` for its tenant")
    for name in sorted(found.keys() - installation.roles.keys()):
        yield Finding(f"role {name}", "belongs to nobody", "remove its tenant again, or drop it")
    for name in sorted(found.keys() & installation.roles.keys()):
        wanted = installation.roles[name]
        login, inherit, connections, powers = found[name]
        for power in powers:
            yield Finding(f"role {name}", f"is {power}", f"ALTER ROLE … NO{power}")
        if (login, inherit) != (wanted.login, wanted.inherit):
            yield Finding(f"role {name}", f"LOGIN is {login}, INHERIT is {inherit}", "ALTER ROLE it to the opposite")
        if wanted.connections >= 0 and connections < 0:
            yield Finding(f"role {name}", "may open any number of sessions", "ALTER ROLE … CONNECTION LIMIT")


def _check_memberships(admin: Connection[Any], installation: Installation) -> Iterator[Finding]:
    options = admin.info.server_version >= GRANT_OPTIONS_SINCE
    rows = admin.execute(_MEMBERSHIPS_WITH_OPTIONS if options else _MEMBERSHIPS, [installation.prefix] * 3)
    host = installation.logins.host
    found = {
        Membership(role, member, inherits): (sets, admins)
        for role, member, inherits, sets, admins in rows
        # Other roles of this database are no finding; an unknown role with our prefix is.
        if role != host or member.startswith(installation.prefix)
    }
    for membership in sorted(found.keys() - installation.memberships):
        yield Finding(
            f"role {membership.member}", f"is a member of {membership.role}", f"REVOKE {membership.role} from it"
        )
    for membership in sorted(installation.memberships - found.keys()):
        if membership.role == RESERVED:
            problem = "cannot connect once handlers use all connections"
            yield Finding(f"role {membership.member}", problem, INSTALL, for_superuser=True)
            continue
        yield Finding(
            f"role {membership.member}", f"is no proper member of {membership.role}", "run `turno tenant add` again"
        )
    for membership in sorted(found.keys() & installation.memberships):
        sets, admins = found[membership]
        if admins or (options and sets is membership.inherits):
            yield Finding(
                f"role {membership.member}",
                f"may do more with {membership.role} than use it",
                "REVOKE and grant it again",
            )


# A member that owns the database, or runs this check, is the provisioner, which works as the owners that it created.
_MEMBERSHIPS = """
SELECT r.rolname, m.rolname, m.rolinherit, true, a.admin_option
FROM pg_catalog.pg_auth_members a
JOIN pg_catalog.pg_roles r ON r.oid = a.roleid
JOIN pg_catalog.pg_roles m ON m.oid = a.member
WHERE (starts_with(r.rolname, %s) OR starts_with(m.rolname, %s))
  AND NOT (m.rolname = current_user AND NOT starts_with(m.rolname, %s))
  AND m.oid <> (SELECT datdba FROM pg_catalog.pg_database WHERE datname = current_database())
"""
_MEMBERSHIPS_WITH_OPTIONS = _MEMBERSHIPS.replace("m.rolinherit, true", "a.inherit_option, a.set_option")


def _check_settings(admin: Connection[Any], installation: Installation) -> Iterator[Finding]:
    rows = admin.execute(
        """
        SELECT r.rolname, coalesce(d.datname, %s), s.setconfig
        FROM pg_catalog.pg_db_role_setting s
        JOIN pg_catalog.pg_roles r ON r.oid = s.setrole
        LEFT JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase
        WHERE starts_with(r.rolname, %s) ORDER BY 1, 2
        """,
        [EVERYWHERE, installation.prefix],
    )
    unbounded = {spec.name for spec in installation.roles.values() if spec.bounded}
    if admin.execute(_SERVER_BOUND).fetchone() == (True,):
        unbounded.clear()
    for name, database, settings in rows:
        # Names only: a value may be anything, and findings are logged.
        names = [setting.partition("=")[0] for setting in settings if not BOUND.match(setting)]
        if names:
            yield Finding(f"role {name}", f"has role settings in {database}: {', '.join(names)}", RESET_LOGIN)
        if database == EVERYWHERE and len(names) < len(settings):
            unbounded.discard(name)
    if unbounded:
        several = f" and {len(unbounded) - 1} more" if len(unbounded) > 1 else ""
        remedy = f"{INSTALL}, or set temp_file_limit for the whole server"
        yield Finding(
            f"role {min(unbounded)}{several}",
            "may fill the server's disk with temporary files",
            remedy,
            for_superuser=True,
        )


# The server's configuration, which no session of a handler can change; not the settings of this session.
_SERVER_BOUND = """
SELECT setting <> '-1' AND source IN ('configuration file', 'command line')
FROM pg_catalog.pg_settings WHERE name = 'temp_file_limit'
"""
