"""Check PUBLIC's rights in the database, and our roles' rights outside our schemas."""

from collections.abc import Iterator
from typing import Any

from psycopg import Connection

from turno.tenancy.catalog.finding import INSTALL, Finding
from turno.tenancy.provisioning.installation import Installation
from turno.tenancy.rights.outside import outside
from turno.tenancy.rights.privileges import PUBLIC
from turno.tenancy.rights.public_rights import closed_functions, open_functions

FORBIDDEN_EXTENSIONS = ("dblink", "postgres_fdw", "file_fdw", "adminpack")


def check_database(admin: Connection[Any], installation: Installation) -> Iterator[Finding]:
    """Yield the findings about the database."""
    yield from _check_database_rights(admin, installation)
    yield from _check_functions(admin, installation)
    yield from _check_elsewhere(admin, installation)
    yield from _check_belongings(admin, installation)
    yield from _check_ways_out(admin)


def _check_database_rights(admin: Connection[Any], installation: Installation) -> Iterator[Finding]:
    rows = admin.execute(
        """
        SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee) END, a.privilege_type, a.is_grantable
        FROM pg_catalog.pg_database d, aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a
        WHERE d.datname = current_database() AND a.grantee <> d.datdba
        """
    )
    wanted = {(spec.name, "CONNECT", False) for spec in installation.roles.values() if spec.login}
    ours = installation.roles.keys() - {installation.logins.host}  # the former rights of PUBLIC
    found = {row for row in rows if row[0] == PUBLIC or row[0] in ours}
    database = f"database {admin.info.dbname}"
    for role, privilege, _ in sorted(found - wanted):
        yield Finding(database, f"{role} may {privilege}", f"REVOKE it; {INSTALL}" if role == PUBLIC else "REVOKE it")
    for role, privilege, _ in sorted(wanted - found):
        yield Finding(database, f"{role} may not {privilege}", "run `turno db migrate`, or GRANT it")


def _check_functions(admin: Connection[Any], installation: Installation) -> Iterator[Finding]:
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
    allowed = open_functions(installation.logins)
    for signature, grantees in rows:
        known = installation.roles.keys() - {installation.logins.host}
        ours = {grantee for grantee in grantees if grantee == PUBLIC or grantee in known}
        wanted = allowed.get(signature, frozenset())
        for role in sorted(ours - wanted):
            yield Finding(f"function {signature}", f"{role} may EXECUTE", INSTALL, for_superuser=True)
        for role in sorted(wanted - ours):
            if PUBLIC not in ours:
                yield Finding(f"function {signature}", f"{role} may not EXECUTE", INSTALL)


def _check_elsewhere(admin: Connection[Any], installation: Installation) -> Iterator[Finding]:
    """Yield rights of our roles outside our schemas; the few functions that are checked above apart."""
    # Without a capability that checks the rights in adopted schemas, each of these rights is a finding.
    checked = [schema.adopted for schema in installation.schemas if schema.adopted] if any(outside()) else []
    rows = admin.execute(
        """
        SELECT r.rolname, pg_describe_object(d.classid, d.objid, d.objsubid)
        FROM pg_catalog.pg_shdepend d
        JOIN pg_catalog.pg_roles r ON r.oid = d.refobjid AND starts_with(r.rolname, %s)
        LEFT JOIN pg_catalog.pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
        LEFT JOIN pg_catalog.pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
        LEFT JOIN pg_catalog.pg_default_acl f ON d.classid = 'pg_default_acl'::regclass AND f.oid = d.objid
        LEFT JOIN pg_catalog.pg_namespace n
               ON n.oid = coalesce(c.relnamespace, p.pronamespace, nullif(f.defaclnamespace, 0),
                                   CASE WHEN d.classid = 'pg_namespace'::regclass THEN d.objid END)
        WHERE d.refclassid = 'pg_authid'::regclass AND d.deptype = 'a'
          AND d.dbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
          AND (n.nspname IS NULL OR n.nspname <> ALL (%s))
          AND NOT (r.rolname = %s AND n.nspname = ANY (%s))
          AND (p.oid IS NULL OR p.oid <> ALL (%s))
        """,
        [
            installation.prefix,
            [*(schema.name for schema in installation.schemas), *checked],
            installation.logins.handlers,
            list(installation.shared),
            list(closed_functions(admin).values()),
        ],
    )
    for role, thing in rows:
        if role == installation.logins.host and thing == "schema public":
            continue
        yield Finding(thing, f"{role} has rights on it", f"REVOKE ALL … FROM {role}")


def _check_belongings(admin: Connection[Any], installation: Installation) -> Iterator[Finding]:
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
        [installation.prefix, list(installation.owners)],
    )
    for role, thing in rows:
        yield Finding(thing, f"is owned by {role}, which must own nothing", "drop it, or REASSIGN it")


def _check_ways_out(admin: Connection[Any]) -> Iterator[Finding]:
    """Yield functions that reach out of the database, or hold advisory locks, and are open to our roles."""
    rows = admin.execute(
        "SELECT extname FROM pg_catalog.pg_extension WHERE extname = ANY (%s)", [list(FORBIDDEN_EXTENSIONS)]
    )
    for (name,) in rows:
        yield Finding(f"extension {name}", "reaches out of this database", "DROP EXTENSION")
    rows = admin.execute(
        "SELECT lanname FROM pg_catalog.pg_language WHERE NOT lanpltrusted AND lanname NOT IN ('internal', 'c')"
    )
    for (name,) in rows:
        yield Finding(f"language {name}", "is not confined to the database", "DROP EXTENSION")
    rows = admin.execute(
        """
        SELECT n.nspname, string_agg(a.privilege_type, ', ')
        FROM pg_catalog.pg_namespace n, aclexplode(n.nspacl) a
        WHERE a.grantee = 0 AND (n.nspname = 'public' OR a.privilege_type = 'CREATE') GROUP BY 1
        """
    )
    for name, privileges in rows:
        yield Finding(f"schema {name}", f"{PUBLIC} may {privileges}", INSTALL)
    if admin.execute("SELECT current_setting('max_prepared_transactions')::int > 0").fetchone() == (True,):
        yield Finding(
            "the server", "keeps prepared transactions, and their locks, for ever", "max_prepared_transactions = 0"
        )
