"""Remove a tenant: mark it as removed, end its sessions, drop its schema, tickets, roles and their rights."""

from collections.abc import Sequence
from typing import Any, LiteralString

from psycopg import Connection, sql

from turno.capability import load
from turno.errors import TurnoError
from turno.tenancy.identity.directory import find_tenant
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.roles import drop_roles, existing_roles
from turno.tenancy.identity.tenant import Tenant
from turno.tenancy.rights.schemas import outside, tenant_schema
from turno.tenancy.schema_migrations.locks import limit_lock_wait, lock_roles, lock_schema, retry_when_locked

BATCH = 1000  # rows a transaction, so that no other tenant waits for a lock or for the lock table
CANCELLED: LiteralString = (  # open jobs of a removed tenant, in the statistics
    " RETURNING tenant_id, type) INSERT INTO turno.outcome_batches (tenant_id, type, outcome, wait_ms)"
    " SELECT tenant_id, type, 'cancelled', array_agg(0) FROM gone GROUP BY tenant_id, type"
)


class CannotRemove(TurnoError):
    """An object of the application depends on an object to drop; the message names it."""


def remove_tenant(admin: Connection[Any], logins: Logins, slug: str) -> None:
    """Remove the tenant and all that it has, without asking; repeat it if it was stopped half-way.

    An adopted schema stays as it was before its adoption. The tenant's row stays, as `removed`: the slug's old tokens
    must never open a new tenant. `admin` is idle.
    """
    tenant = find_tenant(admin, slug)
    _refuse_children(admin, tenant)
    _close(admin, tenant)
    if any(existing_roles(admin, [tenant.owner_role])):
        with admin.transaction():
            _become_owner(admin, tenant)
            ended = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = %s"
            admin.execute(ended, [tenant.handler_role])
        _drop_schema(admin, tenant)
        _revoke_outside(admin, logins, tenant)
        # After the schema: its lock has waited for each enqueue.
        for table in tables_with_own_rows(admin):
            while _delete_batch(admin, logins, tenant, table):
                pass
    _drop_roles(admin, tenant)


def what_goes(admin: Connection[Any], roles: Sequence[str]) -> list[str]:
    """Return the objects and rights of these roles in this database, which their removal drops."""
    rows = admin.execute(
        """
        SELECT DISTINCT CASE d.deptype WHEN 'o' THEN 'drop ' ELSE 'revoke from ' || r.rolname || ': ' END
               || pg_describe_object(d.classid, d.objid, d.objsubid)
        FROM pg_catalog.pg_shdepend d
        JOIN pg_catalog.pg_roles r ON r.oid = d.refobjid AND r.rolname = ANY (%s)
        WHERE d.refclassid = 'pg_authid'::regclass AND d.deptype IN ('a', 'o')
          AND (d.dbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
               OR d.classid = 'pg_database'::regclass)
          AND d.classid <> 'pg_type'::regclass
        ORDER BY 1
        """,
        [list(roles)],
    ).fetchall()
    return [line for (line,) in rows] + [f"drop role {role}" for role in existing_roles(admin, roles)]


def what_removal_takes(admin: Connection[Any], slug: str) -> list[str]:
    """Return a line for each object and right that remove_tenant would drop; nothing is changed."""
    tenant = find_tenant(admin, slug)
    lines = what_goes(admin, _roles(tenant))
    kept = tenant.adopted_schema
    return [*lines, f"keep schema {kept} with everything that is the application's"] if kept else lines


def _roles(tenant: Tenant) -> list[str]:
    return [*tenant.roles, *filter(None, [tenant.readers_role])]


def _refuse_children(admin: Connection[Any], tenant: Tenant) -> None:
    """Raise CannotRemove while handlers of other tenants read the data of this tenant."""
    children = "SELECT min(slug) FROM turno.tenants WHERE parent_id = %s AND state <> 'removed' HAVING count(*) > 0"
    for (child,) in admin.execute(children, [tenant.id]):
        raise CannotRemove(f"{tenant.slug} is the parent of {child}; remove that first")


def _close(admin: Connection[Any], tenant: Tenant) -> None:
    with admin.transaction():
        lock_roles(admin)
        admin.execute("UPDATE turno.tenants SET state = 'removed' WHERE id = %s", [tenant.id])
        admin.execute("DELETE FROM turno.tenant_failures WHERE tenant_id = %s", [tenant.id])
        for role in existing_roles(admin, [tenant.handler_role]):
            admin.execute(sql.SQL("ALTER ROLE {} NOLOGIN").format(sql.Identifier(role)))


@retry_when_locked
def _drop_schema(admin: Connection[Any], tenant: Tenant) -> None:
    with admin.transaction():
        limit_lock_wait(admin)
        lock_schema(admin, tenant.schema)
        if tenant.adopted_schema is not None:
            # CASCADE would drop views and foreign keys of the application on our tables.
            _refuse_dependents(admin, tenant)
        _become_owner(admin, tenant)
        admin.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(tenant.schema)))


def tables_with_own_rows(admin: Connection[Any]) -> list[str]:
    """Return the tables of the control schema, of all sources, with a policy `own_…` for each tenant's rows."""
    rows = admin.execute(
        """
        SELECT c.relname FROM pg_catalog.pg_policy p JOIN pg_catalog.pg_class c ON c.oid = p.polrelid
        WHERE c.relnamespace = 'turno'::regnamespace AND starts_with(p.polname, 'own_') AND p.polcmd = '*' ORDER BY 1
        """
    )
    return [name for (name,) in rows]


@retry_when_locked
def _delete_batch(admin: Connection[Any], logins: Logins, tenant: Tenant, table: str) -> int:
    """Delete up to BATCH of the tenant's rows; returns how many. Owners have no right on tables of an absent source."""
    with admin.transaction():
        limit_lock_wait(admin)
        admin.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(logins.control)))
        statement: LiteralString = (
            "DELETE FROM {0} WHERE ctid = ANY (ARRAY(SELECT ctid FROM {0} WHERE tenant_id = %s LIMIT %s))"
        )
        if table == "tickets":  # the jobs end here, so that the counter of submitted jobs does not decrease
            statement = "WITH gone AS (" + statement + CANCELLED
        return admin.execute(sql.SQL(statement).format(sql.Identifier("turno", table)), [tenant.id, BATCH]).rowcount


def _refuse_dependents(admin: Connection[Any], tenant: Tenant) -> None:
    """Raise CannotRemove if a view or a foreign key outside of our schema depends on a table in it."""
    rows = admin.execute(
        """
        SELECT DISTINCT o.oid::regclass::text, t.relname
        FROM pg_catalog.pg_class t
        JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace AND n.nspname = %s
        JOIN pg_catalog.pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = t.oid
        LEFT JOIN pg_catalog.pg_rewrite w ON d.classid = 'pg_rewrite'::regclass AND w.oid = d.objid
        LEFT JOIN pg_catalog.pg_constraint c ON d.classid = 'pg_constraint'::regclass AND c.oid = d.objid
        JOIN pg_catalog.pg_class o ON o.oid = coalesce(w.ev_class, c.conrelid) AND o.relnamespace <> n.oid
        ORDER BY 1, 2
        """,
        [tenant.schema],
    ).fetchall()
    for dependent, table in rows:
        raise CannotRemove(f"{tenant.slug}: {dependent} depends on {tenant.schema}.{table}; drop that first")


@retry_when_locked
def _revoke_outside(admin: Connection[Any], logins: Logins, tenant: Tenant) -> None:
    with admin.transaction():
        lock_roles(admin)
        schema = tenant_schema(logins, tenant)
        for table in outside():
            load(table.revoke)(admin, schema)
        # Another tenant may adopt the schema: a second removal of this tenant must not revoke the rights there.
        admin.execute("UPDATE turno.tenants SET adopted_schema = NULL WHERE id = %s", [tenant.id])


@retry_when_locked
def _drop_roles(admin: Connection[Any], tenant: Tenant) -> None:
    with admin.transaction():
        lock_roles(admin)
        drop_roles(admin, reversed(_roles(tenant)))


def _become_owner(admin: Connection[Any], tenant: Tenant) -> None:
    admin.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(tenant.owner_role)))
