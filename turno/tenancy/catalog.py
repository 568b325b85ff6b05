"""Compare the live catalog with the matrix of rights and with the expected schemas, roles and settings."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from psycopg import Connection

from turno.capability import left_behind, load
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.roles import (
    GRANT_OPTIONS_SINCE,
    RESERVED,
    Membership,
    RoleSpec,
    report_role,
    reserved_memberships,
    service_roles,
    tenant_memberships,
    tenant_roles,
)
from turno.tenancy.rights.live import PUBLIC, Difference, LiveObject, differences, live_objects
from turno.tenancy.rights.matrix import CatalogObject, Kind, Policy
from turno.tenancy.rights.public_rights import closed_functions, open_functions
from turno.tenancy.rights.schemas import Schema, control_schema, outside, shared_schemas, tenant_schemas

REGRANT = "run `turno db migrate --redefine`"
INSTALL = "run `turno db migrate` as a superuser"
RESTORE = "restore it from the migrations, and investigate the change"
RESET_LOGIN = "run `turno tenant reset-login`, and investigate the change"
FORBIDDEN_EXTENSIONS = ("dblink", "postgres_fdw", "file_fdw", "adminpack")
EVERYWHERE = "every database"
BOUND = re.compile(r"temp_file_limit=\d")  # -1 means no limit


class Finding(NamedTuple):
    """A deviation from the design: the object, the problem and the remedy.

    `for_superuser`: only a superuser can repair it, so that it stays on a managed server.
    """

    object: str
    problem: str
    remedy: str
    for_superuser: bool = False

    def __str__(self) -> str:
        return f"{self.object}: {self.problem}; {self.remedy}"


def check(admin: Connection[Any], logins: Logins) -> list[Finding]:
    """Return all deviations of Turno's schemas, roles and database from the design; changes nothing.

    Any login that may read turno.tenants and turno.companies can call this: the catalog is open to all.
    """
    design = Design.read(admin, logins)
    with admin.transaction():
        return [finding for part in PARTS for finding in part(admin, design)]


def findings_of(name: str, difference: Difference) -> Iterator[Finding]:
    """Yield the surplus and the missing rights on an object of this name."""
    for word, aces in (("may", difference.excess), ("may not", difference.missing)):
        for ace in sorted(aces, key=str):
            column = f" ({ace.column})" if ace.column else ""
            granting = ", and grant it to others" if ace.grantable else ""
            yield Finding(name, f"{ace.grantee} {word} {ace.privilege}{column}{granting}", REGRANT)


@dataclass(frozen=True, slots=True)
class Design:
    """The expected schemas, roles and memberships, from turno.tenants and turno.companies alone.

    `unfinished` are the slugs with incomplete provisioning, `shared` the look-up schemas that every handler may read.
    """

    logins: Logins
    prefix: str  # of the names of all roles of this installation
    schemas: tuple[Schema, ...]
    roles: dict[str, RoleSpec]
    memberships: frozenset[Membership]
    unfinished: tuple[str, ...]
    shared: tuple[str, ...]

    @classmethod
    def read(cls, admin: Connection[Any], logins: Logins) -> Self:
        """Read the tables of tenants and companies."""
        shared = shared_schemas(admin, logins.handlers)
        roles = service_roles(logins)
        memberships = reserved_memberships(admin, logins)
        tenants = "SELECT owner_role, handler_role, api_role FROM turno.tenants WHERE state <> 'removed'"
        for names in admin.execute(tenants):
            roles += tenant_roles(*names)
            memberships += tenant_memberships(logins, *names, sharing=bool(shared))
        roles += [report_role(report) for (report,) in admin.execute("SELECT report_role FROM turno.companies")]
        return cls(
            logins=logins,
            prefix=logins.role(""),
            schemas=(control_schema(logins), *tenant_schemas(admin, logins)),
            roles={spec.name: spec for spec in roles},
            memberships=frozenset(memberships),
            unfinished=tuple(schema.slug for schema in tenant_schemas(admin, logins, state="provisioning")),
            shared=shared,
        )

    @property
    def owners(self) -> list[str]:
        """The roles that own schemas."""
        return [schema.owner for schema in self.schemas]

    @property
    def confined(self) -> set[str]:
        """PUBLIC and the roles without the former rights of PUBLIC."""
        return {PUBLIC, *self.roles} - {self.logins.host}


def _check_schemas(admin: Connection[Any], design: Design) -> Iterator[Finding]:
    live: dict[str, list[LiveObject]] = defaultdict(list)
    for found in live_objects(admin, [schema.name for schema in design.schemas]):
        live[found.schema].append(found)
    for schema in design.schemas:
        if schema.name not in live:
            yield Finding(f"schema {schema.name}", "is missing", "restore it from a backup, or remove its tenant")
            continue
        yield from _check_objects(schema, live[schema.name])
        for one in outside():
            yield from load(one.check)(admin, schema)


def _check_objects(schema: Schema, live: list[LiveObject]) -> Iterator[Finding]:
    """Yield wrong rights, missing and overloaded functions, wrong owners, and row-level security."""
    for difference in differences(schema, live):
        yield from findings_of(_name(schema, difference.thing), difference)
    functions = Counter(found.thing for found in live if found.thing.kind is Kind.FUNCTION)
    for thing, count in functions.items():
        if count > 1:
            yield Finding(_name(schema, thing), "has a namesake", "drop the function that is not Turno's")
    for thing in sorted({CatalogObject(Kind.FUNCTION, name) for name in schema.matrix.functions} - functions.keys()):
        yield Finding(_name(schema, thing), "is missing", REGRANT)
    secured = {table for table, _ in schema.matrix.policies}
    for found in live:
        name = _name(schema, found.thing)
        if found.owner != schema.owner:
            yield Finding(name, f"is owned by {found.owner}", f"give it to {schema.owner}")
        if left_behind(found.source):
            continue
        if found.thing.kind is Kind.FUNCTION and found.thing.name not in schema.matrix.invokers:
            yield from _check_definer(schema, found)
        if found.row_security != (found.thing.name in secured):
            yield Finding(name, f"has row-level security {'on' if found.row_security else 'off'}", RESTORE)


def _check_definer(schema: Schema, found: LiveObject) -> Iterator[Finding]:
    name = _name(schema, found.thing)
    if found.thing.name in schema.matrix.functions and not found.definer:
        yield Finding(name, "does not run as its owner", RESTORE)
    paths = [setting for setting in found.config if setting.startswith("search_path=")]
    if paths != [f"search_path={schema.path}"]:
        yield Finding(name, f"has not pinned its search_path to {schema.path}", RESTORE)


def _name(schema: Schema, thing: CatalogObject) -> str:
    whose = f" of {schema.slug}" if schema.slug else ""
    place = schema.name if thing.kind is Kind.SCHEMA else f"{schema.name}.{thing.name}"
    return f"{thing.kind} {place}{whose}"


def _check_policies(admin: Connection[Any], design: Design) -> Iterator[Finding]:
    for schema in design.schemas:
        if not schema.matrix.policies:
            continue
        rows = admin.execute(
            """
            SELECT c.relname, p.polname, p.polcmd::text,
                   replace(pg_get_expr(p.polqual, c.oid), c.relnamespace::regnamespace || '.', ''),
                   replace(pg_get_expr(p.polwithcheck, c.oid), c.relnamespace::regnamespace || '.', ''),
                   p.polpermissive AND p.polroles = '{0}',
                   substring(obj_description(c.oid, 'pg_class') FROM '^turno/(.*)$')
            FROM pg_catalog.pg_policy p JOIN pg_catalog.pg_class c ON c.oid = p.polrelid
            WHERE c.relnamespace = %s::regnamespace
            """,
            [schema.name],
        )
        live = {
            (table, name): Policy(command if plain else f"{command}, restricted", using, check)
            for table, name, command, using, check, plain, source in rows
            if not left_behind(source)
        }
        wanted = schema.matrix.policies
        for table, name in sorted(live.keys() | wanted.keys()):
            if live.get((table, name)) != wanted.get((table, name)):
                yield Finding(f"policy {name} on {schema.name}.{table}", "is not the designed one", RESTORE)


def _check_defaults(admin: Connection[Any], design: Design) -> Iterator[Finding]:
    """Yield owners with default privileges that would open new objects until the migration grants their rights."""
    rows = admin.execute(
        """
        SELECT r.rolname,
               coalesce(bool_or(d.defaclobjtype = 'f' AND d.defaclnamespace = 0), false),
               coalesce(bool_or(EXISTS (SELECT FROM aclexplode(d.defaclacl) a WHERE a.grantee <> r.oid)), false)
        FROM pg_catalog.pg_roles r
        LEFT JOIN pg_catalog.pg_default_acl d ON d.defaclrole = r.oid
        WHERE r.rolname = ANY (%s) GROUP BY r.rolname ORDER BY r.rolname
        """,
        [design.owners],
    )
    for role, closed, opened in rows:
        if opened or not closed:
            yield Finding(f"role {role}", "gives rights on future objects", "ALTER DEFAULT PRIVILEGES … REVOKE")


def _check_roles(admin: Connection[Any], design: Design) -> Iterator[Finding]:
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


def _check_memberships(admin: Connection[Any], design: Design) -> Iterator[Finding]:
    options = admin.info.server_version >= GRANT_OPTIONS_SINCE
    rows = admin.execute(
        _MEMBERSHIPS_WITH_OPTIONS if options else _MEMBERSHIPS,
        {"prefix": design.prefix, "host": design.logins.host},
    )
    found = {Membership(*row[:3]): row[3:] for row in rows}
    for role, member, _ in sorted(found.keys() - design.memberships):
        yield Finding(f"role {member}", f"is a member of {role}", f"REVOKE {role} from it")
    for role, member, _ in sorted(design.memberships - found.keys()):
        if role == RESERVED:
            problem = "cannot connect once handlers use all connections"
            yield Finding(f"role {member}", problem, INSTALL, for_superuser=True)
        else:
            yield Finding(f"role {member}", f"is no proper member of {role}", "run `turno tenant add` again")
    for membership in sorted(found.keys() & design.memberships):
        sets, admins = found[membership]
        if admins or (options and sets is membership.inherits):
            problem = f"may do more with {membership.role} than use it"
            yield Finding(f"role {membership.member}", problem, "REVOKE and grant it again")


def _check_settings(admin: Connection[Any], design: Design) -> Iterator[Finding]:
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


def _check_database_rights(admin: Connection[Any], design: Design) -> Iterator[Finding]:
    rows = admin.execute(
        """
        SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee) END, a.privilege_type, a.is_grantable
        FROM pg_catalog.pg_database d, aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a
        WHERE d.datname = current_database() AND a.grantee <> d.datdba
        """
    )
    wanted = {(spec.name, "CONNECT", False) for spec in design.roles.values() if spec.login}
    found = {row for row in rows if row[0] in design.confined}
    database = f"database {admin.info.dbname}"
    for role, privilege, _ in sorted(found - wanted):
        yield Finding(database, f"{role} may {privilege}", f"REVOKE it; {INSTALL}" if role == PUBLIC else "REVOKE it")
    for role, privilege, _ in sorted(wanted - found):
        yield Finding(database, f"{role} may not {privilege}", "run `turno db migrate`, or GRANT it")


def _check_functions(admin: Connection[Any], design: Design) -> Iterator[Finding]:
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
        found = design.confined.intersection(grantees)
        wanted = allowed.get(signature, frozenset())
        for role in sorted(found - wanted):
            yield Finding(f"function {signature}", f"{role} may EXECUTE", INSTALL, for_superuser=True)
        for role in sorted(wanted - found) if PUBLIC not in found else ():
            yield Finding(f"function {signature}", f"{role} may not EXECUTE", INSTALL)


def _check_elsewhere(admin: Connection[Any], design: Design) -> Iterator[Finding]:
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
    for role, thing in rows:
        yield Finding(thing, f"{role} has rights on it", f"REVOKE ALL … FROM {role}")


def _check_belongings(admin: Connection[Any], design: Design) -> Iterator[Finding]:
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
    for role, thing in rows:
        yield Finding(thing, f"is owned by {role}, which must own nothing", "drop it, or REASSIGN it")


def _check_ways_out(admin: Connection[Any], _: Design) -> Iterator[Finding]:
    """Yield functions that reach out of the database, or hold advisory locks, and are open to our roles."""
    rows = admin.execute(
        """
        SELECT 'extension ' || extname, 'reaches out of this database', 'DROP EXTENSION'
        FROM pg_catalog.pg_extension WHERE extname = ANY (%s)
        UNION ALL
        SELECT 'language ' || lanname, 'is not confined to the database', 'DROP EXTENSION'
        FROM pg_catalog.pg_language WHERE NOT lanpltrusted AND lanname NOT IN ('internal', 'c')
        UNION ALL
        SELECT 'schema ' || n.nspname, 'PUBLIC may ' || string_agg(a.privilege_type, ', '), %s
        FROM pg_catalog.pg_namespace n, aclexplode(n.nspacl) a
        WHERE a.grantee = 0 AND (n.nspname = 'public' OR a.privilege_type = 'CREATE') GROUP BY n.nspname
        UNION ALL
        SELECT 'the server', 'keeps prepared transactions, and their locks, for ever', 'max_prepared_transactions = 0'
        WHERE current_setting('max_prepared_transactions')::integer > 0
        """,
        [list(FORBIDDEN_EXTENSIONS), INSTALL],
    )
    yield from (Finding(*row) for row in rows)


PARTS = (
    *(_check_schemas, _check_policies, _check_defaults),
    *(_check_roles, _check_memberships, _check_settings),
    *(_check_database_rights, _check_functions, _check_elsewhere, _check_belongings, _check_ways_out),
)
