"""Compare the roles of an installation with the design: attributes, memberships, settings and rights elsewhere."""

import re
from collections.abc import Iterator
from typing import Any

from psycopg import Connection

from turno.tenancy.design import INSTALL, Design, Finding
from turno.tenancy.identity.roles import GRANT_OPTIONS_SINCE, RESERVED, Membership
from turno.tenancy.rights.live import PUBLIC
from turno.tenancy.rights.public_rights import closed_functions, open_functions
from turno.tenancy.rights.schemas import outside

RESET_LOGIN = "run `turno tenant reset-login`, and investigate the change"
EVERYWHERE = "every database"
BOUND = re.compile(r"temp_file_limit=\d")  # -1 means no limit


def check_roles(admin: Connection[Any], design: Design) -> Iterator[Finding]:
    """Yield wrong attributes, missing and unknown roles, and unfinished tenants."""
    rows = admin.execute(
        """
        SELECT rolname, rolcanlogin, rolinherit, rolconnlimit,
               array_remove(ARRAY[CASE WHEN rolsuper THEN 'SUPERUSER' END, CASE WHEN rolbypassrls THEN 'BYPASSRLS' END,
                                  CASE WHEN rolcreaterole THEN 'CREATEROLE' END,
                                  CASE WHEN rolcreatedb THEN 'CREATEDB' END,
                                  CASE WHEN rolreplication THEN 'REPLICATION' END], NULL)
        FROM pg_catalog.pg_roles WHERE starts_with(rolname, %s) ORDER BY 1
        """,
        [design.prefix],
    ).fetchall()
    for name in sorted(design.roles.keys() - {name for name, *_ in rows}):
        yield Finding(f"role {name}", "is missing", "run `turno db migrate`, or `turno tenant add` for its tenant")
    for name, login, inherit, connections, powers in rows:
        wanted = design.roles.get(name)
        if wanted is None:
            yield Finding(f"role {name}", "belongs to nobody", "remove its tenant again, or drop it")
            continue
        for power in powers:
            yield Finding(f"role {name}", f"is {power}", f"ALTER ROLE … NO{power}")
        if (login, inherit) != (wanted.login, wanted.inherit):
            yield Finding(f"role {name}", f"LOGIN is {login}, INHERIT is {inherit}", "ALTER ROLE it to the opposite")
        if wanted.connections >= 0 and connections < 0:
            yield Finding(f"role {name}", "may open any number of sessions", "ALTER ROLE … CONNECTION LIMIT")
    for slug in design.unfinished:
        yield Finding(f"tenant {slug}", "was provisioned half-way", "run `turno tenant add` for it again")


# A member that owns the database, or runs this check, is the provisioner, which works as the owners that it created.
# Other roles of this database in the group `host` are no finding; an unknown role with our prefix is.
_MEMBERSHIPS = """
SELECT r.rolname, m.rolname, m.rolinherit, true, a.admin_option
FROM pg_catalog.pg_auth_members a
JOIN pg_catalog.pg_roles r ON r.oid = a.roleid
JOIN pg_catalog.pg_roles m ON m.oid = a.member
WHERE (starts_with(r.rolname, %(prefix)s) OR starts_with(m.rolname, %(prefix)s))
  AND NOT (m.rolname = current_user AND NOT starts_with(m.rolname, %(prefix)s))
  AND NOT (r.rolname = %(host)s AND NOT starts_with(m.rolname, %(prefix)s))
  AND m.oid <> (SELECT datdba FROM pg_catalog.pg_database WHERE datname = current_database())
"""
_MEMBERSHIPS_WITH_OPTIONS = _MEMBERSHIPS.replace("m.rolinherit, true", "a.inherit_option, a.set_option")


def check_memberships(admin: Connection[Any], design: Design) -> Iterator[Finding]:
    """Yield surplus and missing memberships, and their options."""
    options = admin.info.server_version >= GRANT_OPTIONS_SINCE
    rows = admin.execute(
        _MEMBERSHIPS_WITH_OPTIONS if options else _MEMBERSHIPS,
        {"prefix": design.prefix, "host": design.logins.host},
    )
    actual = {Membership(*row[:3]): row[3:] for row in rows}
    for role, member, _ in sorted(actual.keys() - design.memberships):
        yield Finding(f"role {member}", f"is a member of {role}", f"REVOKE {role} from it")
    for role, member, _ in sorted(design.memberships - actual.keys()):
        if role == RESERVED:
            problem = "cannot connect once handlers use all connections"
            yield Finding(f"role {member}", problem, INSTALL, for_superuser=True)
        else:
            yield Finding(f"role {member}", f"is no proper member of {role}", "run `turno tenant add` again")
    for membership in sorted(actual.keys() & design.memberships):
        sets, admins = actual[membership]
        if admins or (options and sets is membership.inherits):
            problem = f"may do more with {membership.role} than use it"
            yield Finding(f"role {membership.member}", problem, "REVOKE and grant it again")


def check_settings(admin: Connection[Any], design: Design) -> Iterator[Finding]:
    """Yield settings of roles, and logins without a limit of temporary files."""
    rows = admin.execute(
        """
        SELECT r.rolname, coalesce(d.datname, %s), s.setconfig
        FROM pg_catalog.pg_db_role_setting s
        JOIN pg_catalog.pg_roles r ON r.oid = s.setrole
        LEFT JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase
        WHERE starts_with(r.rolname, %s) ORDER BY 1, 2
        """,
        [EVERYWHERE, design.prefix],
    )
    # The server's configuration, which no session of a handler can change; not the settings of this session.
    server = admin.execute(
        "SELECT FROM pg_catalog.pg_settings WHERE name = 'temp_file_limit'"
        " AND setting <> '-1' AND source IN ('configuration file', 'command line')"
    )
    unbounded = set() if server.rowcount else {spec.name for spec in design.roles.values() if spec.bounded}
    for name, database, settings in rows:
        # Names only: a value may be anything, and findings are logged.
        names = [setting.partition("=")[0] for setting in settings if not BOUND.match(setting)]
        if names:
            yield Finding(f"role {name}", f"has role settings in {database}: {', '.join(names)}", RESET_LOGIN)
        if database == EVERYWHERE and len(names) < len(settings):
            unbounded.discard(name)
    if unbounded:
        several = f" and {len(unbounded) - 1} more" if len(unbounded) > 1 else ""
        problem = "may fill the server's disk with temporary files"
        remedy = f"{INSTALL}, or set temp_file_limit for the whole server"
        yield Finding(f"role {min(unbounded)}{several}", problem, remedy, for_superuser=True)


def check_database_rights(admin: Connection[Any], design: Design) -> Iterator[Finding]:
    """Yield surplus and missing rights on the database."""
    rows = admin.execute(
        """
        SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee) END, a.privilege_type, a.is_grantable
        FROM pg_catalog.pg_database d, aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a
        WHERE d.datname = current_database() AND a.grantee <> d.datdba
        """
    )
    wanted = {(spec.name, "CONNECT", False) for spec in design.roles.values() if spec.login}
    actual = {row for row in rows if row[0] in design.confined}
    database = f"database {admin.info.dbname}"
    for role, privilege, _ in sorted(actual - wanted):
        yield Finding(database, f"{role} may {privilege}", f"REVOKE it; {INSTALL}" if role == PUBLIC else "REVOKE it")
    for role, privilege, _ in sorted(wanted - actual):
        yield Finding(database, f"{role} may not {privilege}", "run `turno db migrate`, or GRANT it")


def check_functions(admin: Connection[Any], design: Design) -> Iterator[Finding]:
    """Yield surplus and missing rights on the functions that PUBLIC lost."""
    rows = admin.execute(
        """
        SELECT replace(p.oid::regprocedure::text, 'pg_catalog.', ''),
               coalesce(array_agg(CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee) END::text)
                        FILTER (WHERE a.grantee <> p.proowner), '{}')
        FROM pg_catalog.pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
        WHERE p.oid = ANY (%s) GROUP BY p.oid
        """,
        [list(closed_functions(admin).values())],
    )
    allowed = open_functions(design.logins)
    for signature, grantees in rows:
        actual = design.confined.intersection(grantees)
        wanted = allowed.get(signature, frozenset())
        for role in sorted(actual - wanted):
            yield Finding(f"function {signature}", f"{role} may EXECUTE", INSTALL, for_superuser=True)
        for role in sorted(wanted - actual) if PUBLIC not in actual else ():
            yield Finding(f"function {signature}", f"{role} may not EXECUTE", INSTALL)


def check_elsewhere(admin: Connection[Any], design: Design) -> Iterator[Finding]:
    """Yield rights of our roles outside our schemas; the few functions that are checked above apart."""
    # Without a capability that checks the rights in adopted schemas, each of these rights is a finding.
    checked = [schema.adopted for schema in design.schemas if schema.adopted] if any(outside()) else []
    rows = admin.execute(
        """
        SELECT r.rolname, pg_describe_object(d.classid, d.objid, d.objsubid)
        FROM pg_catalog.pg_shdepend d
        JOIN pg_catalog.pg_roles r ON r.oid = d.refobjid AND starts_with(r.rolname, %(prefix)s)
        LEFT JOIN pg_catalog.pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
        LEFT JOIN pg_catalog.pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
        LEFT JOIN pg_catalog.pg_default_acl f ON d.classid = 'pg_default_acl'::regclass AND f.oid = d.objid
        LEFT JOIN pg_catalog.pg_namespace n
               ON n.oid = coalesce(c.relnamespace, p.pronamespace, nullif(f.defaclnamespace, 0),
                                   CASE WHEN d.classid = 'pg_namespace'::regclass THEN d.objid END)
        WHERE d.refclassid = 'pg_authid'::regclass AND d.deptype = 'a'
          AND d.dbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
          AND (n.nspname IS NULL OR n.nspname <> ALL (%(checked)s))
          AND (r.rolname <> %(handlers)s OR n.nspname IS NULL OR n.nspname <> ALL (%(shared)s))
          AND NOT (r.rolname = %(host)s AND d.classid = 'pg_namespace'::regclass AND n.nspname = 'public')
          AND (p.oid IS NULL OR p.oid <> ALL (%(functions)s))
        """,
        {
            "prefix": design.prefix,
            "checked": [*(schema.name for schema in design.schemas), *checked],
            "handlers": design.logins.handlers,
            "shared": list(design.shared),
            "host": design.logins.host,
            "functions": list(closed_functions(admin).values()),
        },
    )
    for role, description in rows:
        yield Finding(description, f"{role} has rights on it", f"REVOKE ALL … FROM {role}")


def check_belongings(admin: Connection[Any], design: Design) -> Iterator[Finding]:
    """Yield objects with an owner that is a login or a member's role: an owner can grant itself any right."""
    rows = admin.execute(
        """
        SELECT r.rolname, CASE WHEN d.dbid IN (0, b.oid) THEN pg_describe_object(d.classid, d.objid, d.objsubid)
                               ELSE 'something in another database' END
        FROM pg_catalog.pg_shdepend d
        JOIN pg_catalog.pg_roles r ON r.oid = d.refobjid AND starts_with(r.rolname, %s) AND r.rolname <> ALL (%s)
        JOIN pg_catalog.pg_database b ON b.datname = current_database()
        WHERE d.refclassid = 'pg_authid'::regclass AND d.deptype = 'o'
        """,
        [design.prefix, design.owners],
    )
    for role, description in rows:
        yield Finding(description, f"is owned by {role}, which must own nothing", "drop it, or REASSIGN it")
